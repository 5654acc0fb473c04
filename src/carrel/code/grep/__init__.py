"""Text search through the code base with the `rg` program: `CodeSearcher` in `searcher.py`."""
