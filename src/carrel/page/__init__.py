"""The page at `/` that shows the desk to people."""
