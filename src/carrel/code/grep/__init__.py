"""Text search through the code base with the `rg` program: `CodeSearcher` in `searching.py`."""
