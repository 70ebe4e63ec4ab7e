"""An MCP server whose tools answer what they are told to; standard library only.

    python answers_server.py [2026]

With `2026` it speaks 2026-07-28. Tools: answer (its `result` as it is), line (its `text` as the line, `ID` standing for
the request's id), asks (asks for its `method`, then answers what it was given), kept (its arguments).
"""

from __future__ import annotations

import json
import sys
from typing import Any

MODERN = sys.argv[1:] == ["2026"]
TOOLS = [
    {"name": name, "inputSchema": {"type": "object", "properties": {"self": {}}}}
    for name in ("answer", "line", "asks", "kept")
]


def send(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def result_of(frame: dict[str, Any]) -> Any:
    complete = {"resultType": "complete"} if MODERN else {}
    listed = {"ttlMs": 0, "cacheScope": "private"} if MODERN else {}
    method = frame["method"]
    capabilities: dict[str, Any] = {"tools": {}}
    if method == "initialize" and not MODERN:
        version = frame["params"]["protocolVersion"]
        return {"protocolVersion": version, "capabilities": capabilities, "serverInfo": {"name": "a", "version": "1"}}
    if method == "server/discover" and MODERN:
        info = {"supportedVersions": ["2026-07-28"], "serverInfo": {"name": "a", "version": "1"}}
        return {**complete, **listed, **info, "capabilities": capabilities}
    if method == "tools/list":
        return {**complete, **listed, "tools": TOOLS}
    if method != "tools/call":
        return None
    params = frame["params"]
    given = params.get("arguments") or {}
    if params["name"] == "answer":
        return given["result"]
    if params["name"] == "asks":
        if "inputResponses" in params:
            return {**complete, "content": [], "structuredContent": [params["inputResponses"], params["requestState"]]}
        asked = {"method": given["method"], "params": {"messages": [], "maxTokens": 5, "message": "?"}}
        return {"resultType": "input_required", "inputRequests": {"q": asked}, "requestState": "so far"}
    return {**complete, "content": [], "structuredContent": given}


for received in sys.stdin:
    request = json.loads(received)
    if "id" not in request:
        continue
    call = request.get("params") or {}
    if request["method"] == "tools/call" and call["name"] == "line":
        send(call["arguments"]["text"].replace("ID", json.dumps(request["id"])))
        continue
    answer = result_of(request)
    if answer is None and request["method"] != "tools/call":
        error = {"code": -32601, "message": "no such method"}
        send(json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}))
    else:
        send(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": answer}))
