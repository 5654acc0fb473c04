"""One line of the order sheet."""

from dataclasses import dataclass

MOST_OF_ONE_KIND = 20


class BadOrder(ValueError):
    """A line that nobody could bake."""


@dataclass(frozen=True)
class Order:
    customer: str
    product: str
    count: int

    @classmethod
    def parse(cls, line: str) -> "Order":
        """From `customer,product,count`."""
        fields = [field.strip() for field in line.split(",")]
        if len(fields) != 3 or not all(fields):
            raise BadOrder(f"expected customer,product,count: {line!r}")
        customer, product, count = fields
        if not count.isdecimal() or not 0 < int(count) <= MOST_OF_ONE_KIND:
            raise BadOrder(f"count must be 1 to {MOST_OF_ONE_KIND}: {line!r}")
        return cls(customer, product.lower(), int(count))
