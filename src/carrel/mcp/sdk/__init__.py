"""Everything that imports the official MCP SDK, loaded when a request needs more than the fast path."""
