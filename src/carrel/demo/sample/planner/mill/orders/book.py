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
        """From a file with one order a line; `#` begins a remark."""
        lines = path.read_text(encoding="utf-8").splitlines()
        return cls(Order.parse(line) for line in lines if line.strip() and not line.startswith("#"))

    def totals(self) -> dict[str, int]:
        """How many of each product, by name."""
        counted: Counter[str] = Counter()
        for order in self.orders:
            counted[order.product] += order.count
        return dict(sorted(counted.items()))

    def customers(self) -> list[str]:
        return sorted({order.customer for order in self.orders})
