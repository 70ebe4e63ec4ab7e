"""gm as a client of other MCP servers, whose tools become verbs."""
