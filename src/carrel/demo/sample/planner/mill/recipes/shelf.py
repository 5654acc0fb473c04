"""The recipes that we bake."""

from .recipe import Recipe

RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe("rye", grams=1000, per_batch=12, hydration=0.85, starter=0.3, salt=0.018, oven_degrees=270),
        Recipe("country", grams=900, per_batch=24, hydration=0.72, starter=0.2, salt=0.02, oven_degrees=240),
        Recipe("rolls", grams=60, per_batch=40, hydration=0.68, starter=0.2, salt=0.02, oven_degrees=200),
    )
}


def recipe_for(product: str) -> Recipe:
    try:
        return RECIPES[product]
    except KeyError:
        known = ", ".join(RECIPES)
        raise ValueError(f"unknown product {product!r}; known products: {known}") from None
