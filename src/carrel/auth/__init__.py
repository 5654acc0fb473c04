"""Who may come in, as whom, and to what. It knows tokens and scopes, and neither MCP nor any domain."""
