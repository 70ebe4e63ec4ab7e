"""The main job as a client's script: `client_script.py KIND MODE COMMAND …`; prints one JSON object of named checks.

It runs in the environment of the client that is the judge, so it imports nothing of gm. KIND is `sdk` or `fastmcp`;
MODE is the SDK's `legacy`, `auto` or a version.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

SKILL = "skill://gm/SKILL.md"
Json = dict[str, Any]


class Sdk:
    """The client of the MCP Python SDK."""

    def __init__(self, command: list[str], mode: str) -> None:
        from mcp import Client, StdioServerParameters

        parameters = StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ), cwd=os.getcwd())
        self.client: Any = Client(parameters, mode=mode)

    async def tools(self) -> list[str]:
        return [tool.name for tool in (await self.client.list_tools()).tools]

    async def resources(self) -> list[str]:
        return [str(resource.uri) for resource in (await self.client.list_resources()).resources]

    async def read(self, uri: str) -> str:
        return str((await self.client.read_resource(uri)).contents[0].text)

    async def prompts(self) -> list[str]:
        return [prompt.name for prompt in (await self.client.list_prompts()).prompts]

    async def call(self, tool: str, progress: list[float] | None = None, **arguments: Any) -> tuple[str, Any, bool]:
        async def told(done: float, total: float | None, message: str | None) -> None:
            assert progress is not None
            progress.append(done)

        more = {} if progress is None else {"progress_callback": told}
        result = await self.client.call_tool(tool, arguments, **more)
        return "".join(part.text for part in result.content), result.structured_content, bool(result.is_error)


class FastMcp(Sdk):
    """The client of fastmcp."""

    def __init__(self, command: list[str], mode: str) -> None:
        from fastmcp import Client  # type: ignore[import-not-found]
        from fastmcp.client.transports import StdioTransport  # type: ignore[import-not-found]

        transport = StdioTransport(command[0], command[1:], env=dict(os.environ), cwd=os.getcwd(), keep_alive=False)
        self.client = Client(transport)

    async def tools(self) -> list[str]:
        return [tool.name for tool in await self.client.list_tools()]

    async def resources(self) -> list[str]:
        return [str(resource.uri) for resource in await self.client.list_resources()]

    async def read(self, uri: str) -> str:
        return str((await self.client.read_resource(uri))[0].text)

    async def prompts(self) -> list[str]:
        return [prompt.name for prompt in await self.client.list_prompts()]

    async def call(self, tool: str, progress: list[float] | None = None, **arguments: Any) -> tuple[str, Any, bool]:
        async def told(done: float, total: float | None, message: str | None) -> None:
            assert progress is not None
            progress.append(done)

        more: Json = {} if progress is None else {"progress_handler": told}
        result = await self.client.call_tool(tool, arguments, raise_on_error=False, **more)
        return "".join(part.text for part in result.content), result.structured_content, bool(result.is_error)


async def play(kind: str, mode: str, command: list[str]) -> dict[str, Any]:
    """Play the main job; the checks, each with what was seen."""
    judge = Sdk(command, mode) if kind == "sdk" else FastMcp(command, mode)
    seen: dict[str, Any] = {}
    async with judge.client:
        seen["tools"] = (await judge.tools(), ["next_context", "run_code", "finish"])
        seen["resources"] = (SKILL in await judge.resources(), True)
        seen["prompts"] = (await judge.prompts(), ["gm", "gm-continue"])
        refused = await judge.call("run_code", code="1")
        seen["the gate is closed at first"] = (refused[2] and "ReadMcpResourceTool" in refused[0], True)
        seen["the skill is read"] = ("# " in await judge.read(SKILL), True)
        context = await judge.call("next_context", task="replace two by 2")
        seen["a context with structured content"] = ((context[1] or {}).get("step"), 1)
        row = (await judge.call("run_code", code='(await gm.prd_add(title="Two is 2", doneWhen="check.sh"))["id"]'))[0]
        edit = 'e = await gm.edit_file(path="a.txt", old="two", new="2"); "+2" in e["diff"]'
        seen["an edit"] = ((await judge.call("run_code", code=edit))[0].strip(), "true")
        seen["the file"] = (await asyncio.to_thread(Path("a.txt").read_text), "one\n2\nthree\n")
        check = 'c = await gm.run_shell(command="sh check.sh"); assert c["exit"] == 0; c["seq"]'
        witness = (await judge.call("run_code", code=check))[0].strip()
        commit = 'c = await gm.git_commit(message="Two is 2", paths=["a.txt"]); c["sha"]'
        sha = (await judge.call("run_code", code=commit))[0].strip()
        seen["a commit"] = (len(sha), 40)
        pid = '(await gm.query_log(kind="run-start", limit=1, full=True))["events"][0]["pid"]'
        os.kill(int((await judge.call("run_code", code=pid))[0]), signal.SIGKILL)
        close = f'r = await gm.prd_resolve(id="{row.strip()}", event={witness}, commit="{sha}"); r["id"]'
        seen["a row closed after the worker's death"] = ((await judge.call("run_code", code=close))[0], row)
        progress: list[float] = []
        await judge.call("run_code", progress, code="await asyncio.sleep(1.5)")
        seen["progress"] = (len(progress) > 0, True)
        missing = await judge.call("run_code", code='await gm.read_file(path="none")')
        seen["an error is a result"] = ((missing[2], "not_found" in missing[0]), (True, True))
        calls = [judge.call("run_code", code=f"{n} + 1") for n in range(20)]
        seen["20 calls at once"] = (
            [text for text, _, _ in await asyncio.gather(*calls)],
            [str(n + 1) for n in range(20)],
        )
        ended = await judge.call("finish", gaps=[{"what": "the plan is not committed", "why": "a trial"}], force=True)
        seen["the end"] = ((ended[1] or {}).get("ended"), True)
    return seen


if __name__ == "__main__":
    found = asyncio.run(play(sys.argv[1], sys.argv[2], sys.argv[3:]))
    print(json.dumps({name: [got == wanted, repr(got)] for name, (got, wanted) in found.items()}))
