"""A server made with the SDK: `python sdk_server.py stdio` or `python sdk_server.py PORT` (streamable HTTP)."""

from __future__ import annotations

import sys

from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("sdk")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def greet(name: str) -> str:
    """Greet somebody."""
    return f"hello {name}"


@server.tool()
async def header(ctx: Context) -> str:
    """Return a header of the request."""
    request = ctx.request_context.request
    return str(request.headers.get("x-key", "")) if request is not None else ""


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio")
    else:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
