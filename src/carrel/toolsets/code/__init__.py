"""The code contract."""
