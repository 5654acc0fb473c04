"""The page at `/` that shows the desk to people."""

from carrel.page.app import Page, build_page
from carrel.page.ring import Ring, Rings
from carrel.page.showing import Shown

__all__ = ["Page", "Ring", "Rings", "Shown", "build_page"]
