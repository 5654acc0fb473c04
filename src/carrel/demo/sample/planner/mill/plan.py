"""The plan for a week: python3 -m mill.plan [orders.csv]."""

import sys
from collections.abc import Iterator
from pathlib import Path

from .orders import OrderBook
from .oven import schedule, water_temperature
from .recipes import recipe_for

ORDERS = Path(__file__).parent / "orders" / "week.csv"


def plan(book: OrderBook, *, room: float, flour: float, starter: float) -> Iterator[str]:
    """Yields the lines of the plan."""
    totals = book.totals()
    yield f"{len(book.orders)} orders from {len(book.customers())} customers"
    for product, count in totals.items():
        dough = recipe_for(product).dough(count)
        yield f"{product:8} {count:3}  flour {dough.flour} g, water {dough.water} g, starter {dough.starter} g"
    yield f"water at {water_temperature(room, flour, starter):.0f} degrees"
    for slot in schedule(totals):
        warning = "  too cool" if slot.is_too_cool else ""
        yield f"{slot.clock}  {slot.product:8} {slot.count:3}  {slot.degrees:.0f} degrees{warning}"


def main() -> None:
    book = OrderBook.read(Path(sys.argv[1]) if len(sys.argv) > 1 else ORDERS)
    for line in plan(book, room=19, flour=17, starter=23):
        sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    main()
