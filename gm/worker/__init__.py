"""The worker: gm's MCP server behind the relay, on the SDK's low-level server."""
