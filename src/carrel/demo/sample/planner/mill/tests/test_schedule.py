"""Batches in falling heat."""

import unittest

from ..oven import degrees_after, schedule, water_temperature


class Schedule(unittest.TestCase):
    def test_the_hottest_recipe_goes_first(self) -> None:
        slots = schedule({"rolls": 6, "country": 20, "rye": 8})
        self.assertEqual([slot.product for slot in slots], ["rye", "country", "rolls"])
        self.assertEqual([slot.clock for slot in slots], ["09:00", "09:45", "10:30"])

    def test_a_fourth_batch_comes_too_late_for_country_bread(self) -> None:
        slots = schedule({"rye": 12, "country": 72})
        self.assertEqual([slot.is_too_cool for slot in slots], [False, False, False, True])

    def test_bricks_lose_heat(self) -> None:
        self.assertGreater(degrees_after(1), degrees_after(2))

    def test_cold_rooms_want_warm_water(self) -> None:
        self.assertEqual(water_temperature(room=15, flour=12, starter=20), 52)
