"""Engines, schema and migrations. Nothing here knows what is stored."""
