"""One folder a contract: its tool definitions, its error dialect, and thin handlers."""
