"""What people have ordered."""

from .book import OrderBook
from .order import BadOrder, Order

__all__ = ["BadOrder", "Order", "OrderBook"]
