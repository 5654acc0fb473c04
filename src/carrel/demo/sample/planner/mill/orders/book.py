"""All orders of a week."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from .order import Order


class OrderBook:
    def __init__(self, orders: Iterable[Order]) -> None:
        self.orders = list(orders)

    @classmethod
    def read(cls, path: Path) -> "OrderBook":
        """Reads a file with one order per line; `#` starts a comment."""
        lines = path.read_text(encoding="utf-8").splitlines()
        return cls(Order.parse(line) for line in lines if line.strip() and not line.startswith("#"))

    def totals(self) -> dict[str, int]:
        """Returns the number of pieces of each product, by name."""
        counted: Counter[str] = Counter()
        for order in self.orders:
            counted[order.product] += order.count
        return dict(sorted(counted.items()))

    def customers(self) -> list[str]:
        return sorted({order.customer for order in self.orders})
