"""Slow, obviously right models of the contracts, and the worlds and requests that they are tried on."""
