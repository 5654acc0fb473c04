"""What goes into a loaf."""

from .recipe import Dough, Recipe
from .shelf import RECIPES, recipe_for

__all__ = ["RECIPES", "Dough", "Recipe", "recipe_for"]
