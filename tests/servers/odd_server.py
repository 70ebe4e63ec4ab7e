"""An MCP server that misbehaves as its arguments say; standard library only.

    python odd_server.py MODE [FILE [PORT]]

FILE holds state between two starts. Tools: echo (answers its arguments), slow (answers after `seconds`), die (exits),
fail (isError), big (20 MB in one line), text (JSON as text), picture (an image), pid.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ONLY = socket.socket()
MODE = sys.argv[1] if len(sys.argv) > 1 else "plain"
STATE = Path(sys.argv[2]) if len(sys.argv) > 2 else None


def send(frame: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(frame) + "\n")
    sys.stdout.flush()


def tool(name: str, **properties: Any) -> dict[str, Any]:
    return {
        "name": name,
        "description": f"The tool {name}.",
        "inputSchema": {"type": "object", "properties": properties},
    }


TOOLS = [
    tool("echo", text={"type": "string"}, n={"type": "integer"}),
    tool("slow", seconds={"type": "number"}),
    *(tool(name) for name in ("die", "fail", "big", "text", "picture", "pid", "ask")),
]
if MODE == "names":
    TOOLS = [tool(name) for name in sys.argv[2:]]
if MODE == "broken-tools":
    TOOLS += [
        {"name": "no_schema"},
        {"name": "array", "inputSchema": {"type": "array"}},
        {"name": "odd", "inputSchema": {"type": "object", "properties": {"a": 7}}},
        {"inputSchema": {"type": "object"}},
        tool("with-dash.and dot"),
        tool("same-name"),
        tool("same_name"),
        tool("class"),
    ]


def starts() -> int:
    assert STATE is not None
    count = int(STATE.read_text()) + 1 if STATE.exists() else 1
    STATE.write_text(str(count))
    return count


def call(name: str, arguments: dict[str, Any], request_id: Any) -> dict[str, Any] | None:
    if MODE == "names":
        return {"content": [], "structuredContent": {"tool": name}}
    if name == "echo":
        return {"content": [], "structuredContent": arguments}
    if name == "slow":
        time.sleep(float(arguments.get("seconds", 60)))
        return text("done")
    if name == "die":
        print("dying as asked", file=sys.stderr, flush=True)
        os._exit(3)
    if name == "fail":
        return {"content": [{"type": "text", "text": "it went wrong"}], "isError": True}
    if name == "big":
        return text("x" * 20_000_000)
    if name == "text":
        return text('{"a": [1, 2]}')
    if name == "picture":
        data = base64.b64encode(b"\x89PNG not really").decode()
        return {"content": [{"type": "image", "data": data, "mimeType": "image/png"}]}
    if name == "pid":
        return {
            "content": [],
            "structuredContent": {
                "pid": os.getpid(),
                "depth": os.environ.get("GMNEW_MCP_DEPTH"),
                "cwd": os.getcwd(),
                "project": os.environ.get("PLAYWRITER_PROJECT_DIR"),
                "token": os.environ.get("TOKEN"),
            },
        }
    if name == "ask":
        answers = {}
        for method in ("sampling/createMessage", "elicitation/create", "roots/list"):
            send({"jsonrpc": "2.0", "id": f"ask-{method}", "method": method, "params": {}})
            answer = json.loads(sys.stdin.readline())
            answers[method] = answer.get("error", answer.get("result"))
        return {"content": [], "structuredContent": answers}
    if name == "later":
        return text("a tool that came later")
    return None


def text(value: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value}]}


def answer(frame: dict[str, Any]) -> None:
    method, request_id = frame.get("method"), frame.get("id")
    if request_id is None:
        return
    if method == "initialize":
        version = "2024-11-05" if MODE == "old" else frame["params"]["protocolVersion"]
        result: Any = {
            "protocolVersion": version,
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "odd", "version": "1"},
        }
    elif method == "tools/list":
        result = {"tools": TOOLS, **({"nextCursor": "again"} if MODE == "endless" else {})}
    elif method == "tools/call":
        params = frame["params"]
        result = call(params["name"], params.get("arguments") or {}, request_id)
        if MODE == "changes" and params["name"] == "echo":
            TOOLS.append(tool("later"))
            send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    elif method == "ping":
        result = {}
    else:
        send({"jsonrpc": "2.0", "id": request_id, "error": {"code": -32601, "message": "no such method"}})
        return
    send({"jsonrpc": "2.0", "id": request_id, "result": result})


def be_the_only_one() -> None:
    """Bind a port for as long as we live, as servers do that allow one of their kind; FILE gets a line a start."""
    assert STATE is not None
    with STATE.open("a") as notes:
        try:
            ONLY.bind(("127.0.0.1", int(sys.argv[3])))
        except OSError:
            notes.write("refused\n")
            sys.exit(6)
        notes.write("started\n")


def main() -> None:
    if MODE == "only-one":
        be_the_only_one()
    if MODE == "never":
        time.sleep(600)
    if MODE == "exits-twice" and starts() <= 2:
        print("not yet", file=sys.stderr, flush=True)
        sys.exit(4)
    if MODE == "exits-always":
        print("no, thank you", file=sys.stderr, flush=True)
        sys.exit(5)
    if MODE == "grows" and starts() > 1:
        TOOLS.append(tool("later"))
    if MODE == "prints":
        print("Welcome to the server!\nListening on stdio\n\x00\xff", flush=True)
    if MODE == "grandchildren":
        child = subprocess.Popen(["sleep", "600"], start_new_session=True)
        assert STATE is not None
        STATE.write_text(str(child.pid))
    for line in sys.stdin:
        answer(json.loads(line))
    if MODE == "stays":
        time.sleep(600)
    if MODE == "only-one":
        time.sleep(0.4)


if __name__ == "__main__":
    main()
