"""Reading orders and adding them up."""

import unittest

from ..orders import BadOrder, Order, OrderBook
from ..recipes import recipe_for


class Orders(unittest.TestCase):
    def test_a_line_is_read_without_blanks_and_case(self) -> None:
        self.assertEqual(Order.parse(" Abel , Rye ,4"), Order("Abel", "rye", 4))

    def test_an_invalid_line_is_refused(self) -> None:
        for line in ("Abel,rye", "Abel,rye,0", "Abel,rye,21", "Abel,rye,two", ",rye,1"):
            with self.subTest(line), self.assertRaises(BadOrder):
                Order.parse(line)

    def test_totals_add_up_what_customers_share(self) -> None:
        book = OrderBook([Order("a", "rye", 2), Order("b", "rye", 3), Order("b", "country", 1)])
        self.assertEqual(book.totals(), {"country": 1, "rye": 5})

    def test_batches_are_whole(self) -> None:
        self.assertEqual([recipe_for("rye").batches(count) for count in (0, 1, 12, 13)], [0, 1, 1, 2])

    def test_dough_weighs_what_its_pieces_do(self) -> None:
        dough = recipe_for("country").dough(10)
        self.assertAlmostEqual(dough.weight, 9000, delta=3)
