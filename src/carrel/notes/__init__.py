"""Notes: a folder of markdown files as a graph."""
