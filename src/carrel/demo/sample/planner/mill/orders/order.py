"""One line of the order sheet."""

from dataclasses import dataclass

MAX_COUNT = 20


class BadOrder(ValueError):
    """A line that is not a valid order."""


@dataclass(frozen=True)
class Order:
    customer: str
    product: str
    count: int

    @classmethod
    def parse(cls, line: str) -> "Order":
        """Parses `customer,product,count`."""
        fields = [field.strip() for field in line.split(",")]
        if len(fields) != 3 or not all(fields):
            raise BadOrder(f"expected customer,product,count: {line!r}")
        customer, product, count = fields
        if not count.isdecimal() or not 0 < int(count) <= MAX_COUNT:
            raise BadOrder(f"count must be 1 to {MAX_COUNT}: {line!r}")
        return cls(customer, product.lower(), int(count))
