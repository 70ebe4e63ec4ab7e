"""The peer's side of bench/body.py: FastMCP's CodeMode through its in-memory client; prints figures as JSON.

Runs in the peer's own environment; see bench/body.py.
"""

import asyncio
import json
import os
import statistics
import sys
import time

import fastmcp
from fastmcp import Client, FastMCP
from fastmcp.experimental.transforms.code_mode import CodeMode

server = FastMCP("peer", transforms=[CodeMode()])


@server.tool
async def nop(value: str = "") -> dict:
    """Do nothing."""
    return {"value": value}


@server.tool
async def pause(ms: int) -> dict:
    """Wait."""
    await asyncio.sleep(ms / 1000)
    return {"ms": ms}


async def timed(client: Client, code: str, count: int, pause_s: float = 0.0) -> list[float]:
    times = []
    for _ in range(count):
        await asyncio.sleep(pause_s)
        start = time.perf_counter()
        await client.call_tool("execute", {"code": code})
        times.append((time.perf_counter() - start) * 1000)
    return times


async def main() -> None:
    quick = "--quick" in sys.argv
    async with Client(server) as client:
        await timed(client, "return 1 + 1", 3)
        single = await timed(client, "return 1 + 1", 10 if quick else 30, 0.1)
        row = await timed(client, "return 1 + 1", 100)
        start = time.perf_counter()
        await asyncio.gather(*(client.call_tool("execute", {"code": "return 1 + 1"}) for _ in range(32)))
        at_once = (time.perf_counter() - start) * 1000
        calls = 'for i in range(40):\n    await call_tool("nop", {})\nreturn 1'  # it allows 50 in one body
        one = (statistics.median(await timed(client, calls, 5)) - statistics.median(row)) / 40
        gathered = "import asyncio\nawait asyncio.gather(*[call_tool('pause', {'ms': 50}) for _ in range(8)])\nreturn 1"
        parallel = statistics.median(await timed(client, gathered, 5))
    print(
        json.dumps(
            {
                "version": fastmcp.__version__,
                "single": statistics.median(single),
                "row": statistics.median(row),
                "row90": sorted(row)[89],
                "at_once": at_once,
                "call": one,
                "parallel": parallel,
            }
        )
    )


asyncio.run(main())
sys.stdout.flush()
os._exit(0)  # FastMCP 4.2.3 aborts now and then while the interpreter ends, when all has been told
