"""foreplan as an MCP server: what it offers to a client, which is a model, and what that one is told."""
