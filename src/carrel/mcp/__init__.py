"""The MCP room: how tools are served. It knows the protocol and no domain."""
