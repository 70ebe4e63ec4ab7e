"""What `fetch` makes of unusual requests and replies: ports, headers, charsets, layers of compression, secrets."""

from __future__ import annotations

import gzip
import hashlib
import importlib
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gm.run.run import Run

from .conftest import Caller
from .test_fetch import Server, refused, server

fetching = importlib.import_module("gm.verbs.fetch")
__all__ = ["server"]

SECRET = "s3cr3t-t0ken-value"


@pytest.fixture
def guarded(workspace: Path) -> Iterator[Caller]:
    run = Run.begin(workspace / ".gm" / "runs" / "20261130-120000-beef", workspace, secrets={"TOKEN": SECRET}, about={})
    yield Caller(run)
    run.close()


@pytest.mark.parametrize(
    ("body", "mime"),
    [(b"line\n" * 30_000 + SECRET.encode() + b"\n", "text/plain"), (b"\0\1" + SECRET.encode(), "image/png")],
    ids=["long text", "binary"],
)
def test_a_stored_reply_says_when_a_secret_was_taken_out(
    guarded: Caller, server: Server, body: bytes, mime: str
) -> None:
    result = guarded("fetch", url=server.add("/a", body, mime))
    stored = (guarded.workspace / result["path"]).read_bytes()
    assert SECRET.encode() not in stored and "‹redacted TOKEN›".encode() in stored
    assert result["redacted"] is True
    assert (result["blob"], result["storedSize"]) == (hashlib.sha256(stored).hexdigest(), len(stored))
    assert (result["sha256"], result["size"]) == (hashlib.sha256(body).hexdigest(), len(body))
    clean = guarded("fetch", url=server.add("/b", b"\0clean", "image/png"))
    assert "redacted" not in clean and clean["storedSize"] == 6 and clean["blob"] == clean["sha256"]


def test_a_port_that_is_none_is_a_bad_url_also_after_a_redirect(call: Caller, server: Server) -> None:
    assert refused(call, url="http://127.0.0.1:99999/").code == "bad_url"
    away = server.add("/away", b"", status=302, Location="http://127.0.0.1:99999/")
    assert refused(call, url=away).code == "bad_url"
    assert call.events("warning") == []


@pytest.mark.parametrize("name", ["undefined", "unicode_escape", "idna", "punycode", "rot13"])
def test_a_charset_that_is_no_encoding_of_text_is_passed_over(call: Caller, server: Server, name: str) -> None:
    body = b"a\\u00e9-xn--b \xc3\xbc"
    result = call("fetch", url=server.add("/t", body, f"text/plain; charset={name}"))
    assert (result["text"], result["encoding"]) == (body.decode(), "utf-8")


@pytest.mark.parametrize(
    "headers", [{"X-Name": "grün"}, {"X-Näme": "x"}, {"X Name": "x"}, {"": "x"}, {"X-Name": "a\r\nX-Other: b"}]
)
def test_a_header_that_cannot_be_sent_is_named(call: Caller, server: Server, headers: dict[str, str]) -> None:
    assert refused(call, url=server.add("/a", b"x"), headers=headers).code == "bad_header"
    assert server.seen == []


@pytest.mark.parametrize(
    ("packing", "body"),
    [
        ("gzip, deflate", zlib.compress(gzip.compress(b"packed"))),
        ("deflate, gzip", gzip.compress(zlib.compress(b"packed"))),
        ("identity, GZIP", gzip.compress(b"packed")),
    ],
    ids=["gzip then deflate", "deflate then gzip", "identity then gzip"],
)
def test_layers_of_compression_are_undone_the_last_first(
    call: Caller, server: Server, packing: str, body: bytes
) -> None:
    result = call("fetch", url=server.add("/z", body, Content_Encoding=packing))
    assert (result["text"], "partial" in result) == ("packed", False)


def test_a_reply_is_unpacked_and_hashed_beside_the_loop(
    call: Caller, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, threads = fetching._answer, []

    def recorded(*arguments: Any) -> Any:
        threads.append(threading.current_thread())
        return answer(*arguments)

    monkeypatch.setattr(fetching, "_answer", recorded)
    url = server.add("/z", gzip.compress(b"packed"), Content_Encoding="gzip")
    assert call("fetch", url=url)["text"] == "packed"
    assert len(threads) == 1 and threads[0] is not threading.main_thread()
