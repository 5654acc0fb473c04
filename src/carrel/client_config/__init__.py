"""Telling MCP clients of this desk: their configuration files, edited in place."""
