"""`fetch` against real servers on loopback: slow, endless, redirecting, packed, wrongly encoded, huge, broken."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import json
import shutil
import socket
import subprocess
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gm.errors import GmError
from gm.system.program import self_command

Answer = Callable[[http.server.BaseHTTPRequestHandler], None]


class Server:
    """A server whose paths are answered by functions."""

    def __init__(self) -> None:
        answers: dict[str, Answer] = {}
        self.answers = answers
        self.seen: list[dict[str, str]] = []
        seen = self.seen

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                seen.append({name.lower(): value for name, value in self.headers.items()})
                try:
                    answers[self.path.partition("?")[0]](self)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True

            def log_message(self, *_: object) -> None:
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def add(self, path: str, body: bytes, mime: str = "text/plain", status: int = 200, **headers: str) -> str:
        def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
            handler.send_response(status)
            handler.send_header("Content-Type", mime)
            handler.send_header("Content-Length", str(len(body)))
            for name, value in headers.items():
                handler.send_header(name.replace("_", "-"), value)
            handler.end_headers()
            handler.wfile.write(body)

        self.answers[path] = answer
        return self.url + path

    def play(self, path: str, answer: Answer) -> str:
        self.answers[path] = answer
        return self.url + path


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    found = Server()
    yield found
    found.http.shutdown()
    found.http.server_close()


def refused(call: Any, **arguments: Any) -> GmError:
    with pytest.raises(GmError) as raised:
        call("fetch", **arguments)
    return raised.value


def test_a_text_comes_with_status_headers_and_digest(call: Any, server: Server) -> None:
    body = "grüße\n".encode()
    result = call("fetch", url=server.add("/a", body, "text/plain; charset=utf-8", X_Own="1"), headers={"X-Asked": "y"})
    assert (result["status"], result["ok"], result["text"], result["encoding"]) == (200, True, "grüße\n", "utf-8")
    assert (result["mime"], result["size"], result["headers"]["x-own"]) == ("text/plain", len(body), "1")
    assert result["sha256"] == hashlib.sha256(body).hexdigest() and server.seen[0]["x-asked"] == "y"
    missing = call("fetch", url=server.add("/gone", b"no", status=404))
    assert (missing["status"], missing["ok"], missing["text"]) == (404, False, "no")


def test_redirects_are_followed_without_a_cap(call: Any, server: Server) -> None:
    def hop(handler: http.server.BaseHTTPRequestHandler) -> None:
        number = int(handler.path.partition("?")[2])
        handler.send_response(302 if number else 200)
        handler.send_header("Content-Length", "0")
        if number:
            handler.send_header("Location", f"/hop?{number - 1}")
        handler.end_headers()

    result = call("fetch", url=server.play("/hop", hop) + "?100")
    assert (result["status"], result["redirects"], result["url"]) == (200, 100, server.url + "/hop?0")


def test_a_circle_of_redirects_ends_with_the_time(call: Any, server: Server) -> None:
    url = server.add("/round", b"", status=302, Location="/round")
    started = time.monotonic()
    assert refused(call, url=url, timeoutMs=500).code == "timeout" and time.monotonic() - started < 3


def test_credentials_are_not_sent_on_to_another_host(call: Any, server: Server) -> None:
    server.add("/end", b"")
    url = server.add("/away", b"", status=302, Location=server.url.replace("127.0.0.1", "localhost") + "/end")
    call("fetch", url=url, headers={"Authorization": "Bearer abc"})
    assert "authorization" in server.seen[0] and "authorization" not in server.seen[1]
    bad = server.add("/file", b"", status=302, Location="file:///etc/passwd")
    assert refused(call, url=bad).code == "bad_url"


def test_a_slow_and_an_endless_reply_give_what_came(call: Any, server: Server) -> None:
    def slow(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/plain")
        handler.end_headers()
        while True:
            handler.wfile.write(b"tick\n")
            time.sleep(0.05)

    started = time.monotonic()
    result = call("fetch", url=server.play("/endless", slow), timeoutMs=700)
    assert (result["partial"], result["reason"]) == (True, "timeout") and result["text"].startswith("tick\n")
    assert time.monotonic() - started < 3

    def silent(handler: http.server.BaseHTTPRequestHandler) -> None:
        time.sleep(3)

    error = refused(call, url=server.play("/silent", silent), timeoutMs=300)
    assert error.code == "timeout" and "0.3 s" in error.message


def test_a_reply_that_breaks_off_is_partial(call: Any, server: Server) -> None:
    def broken(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "100")
        handler.end_headers()
        handler.wfile.write(b"half")
        handler.close_connection = True

    result = call("fetch", url=server.play("/half", broken))
    assert (result["reason"], result["text"]) == ("connection_lost", "half")


@pytest.mark.parametrize(
    ("packing", "body"),
    [
        ("gzip", gzip.compress(b"packed")),
        ("gzip", gzip.compress(b"pac") + gzip.compress(b"ked")),
        ("deflate", zlib.compress(b"packed")),
        ("deflate", zlib.compress(b"packed", wbits=-15)),
    ],
    ids=["gzip", "gzip in two members", "deflate", "deflate without its header"],
)
def test_compressed_replies_are_unpacked(call: Any, server: Server, packing: str, body: bytes) -> None:
    result = call("fetch", url=server.add("/z", body, Content_Encoding=packing))
    assert (result["text"], result["size"], "partial" in result) == ("packed", 6, False)


def test_a_reply_that_is_not_packed_as_it_says_comes_as_it_is(call: Any, server: Server) -> None:
    plain = call("fetch", url=server.add("/plain", b"not gzip", Content_Encoding="gzip"))
    assert (plain["text"], plain["reason"]) == ("not gzip", "bad_compression")
    cut = call("fetch", url=server.add("/cut", gzip.compress(b"x" * 100_000 + b"y" * 9)[:-20], Content_Encoding="gzip"))
    assert cut["reason"] == "bad_compression"
    unknown = call("fetch", url=server.add("/br", b"\x8b\x03\x80abc\x03\xff", "text/html", Content_Encoding="br"))
    assert unknown["reason"] == "bad_compression"


def test_a_bomb_stops_at_the_limit(call: Any, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gm.verbs.fetch._MAX_BYTES", 1_000_000)
    bomb = gzip.compress(b"\0" * 50_000_000)
    result = call("fetch", url=server.add("/bomb", bomb, "application/x", Content_Encoding="gzip"))
    assert (result["size"], result["reason"], result["binary"]) == (1_000_000, "too_large", True)
    huge = call("fetch", url=server.add("/huge", b"x" * 3_000_000))
    assert huge["reason"] == "too_large" and 1_000_000 < huge["size"] < 2_000_000


@pytest.mark.parametrize(
    ("mime", "body", "text", "encoding"),
    [
        ("text/html; charset=iso-8859-1", b"caf\xe9 \x80", "café €", "cp1252"),
        ("text/html", b'<meta charset="windows-1251">\xcf', '<meta charset="windows-1251">П', "cp1251"),
        ("text/xml", b"\xff\xfe" + "ü".encode("utf-16-le"), "ü", "utf-16"),
        ("text/plain", b"\xef\xbb\xbfx", "x", "utf-8"),
        ("application/json; charset=no-such", b'{"a": "\xc3\xbc"}', '{"a": "ü"}', "utf-8"),
        ("text/html; charset=iso-8859-1", b"\x81", None, "cp1252"),
        ("text/plain; charset=ascii", "ü".encode(), "Ã¼", "cp1252"),
        ("text/plain; charset=utf-8", b"a\xe9b", "a�b", "utf-8"),
    ],
)
def test_text_is_decoded_by_mark_header_page_or_utf8(
    call: Any, server: Server, mime: str, body: bytes, text: str | None, encoding: str
) -> None:
    result = call("fetch", url=server.add("/t", body, mime))
    if text is None:
        assert result["encoding"] in ("utf-8", "cp1252") and result["replaced"]
    else:
        assert (result["text"], result["encoding"], result.get("replaced", False)) == (text, encoding, "�" in text)


def test_long_text_and_binary_go_to_blobs_that_can_be_read(call: Any, server: Server) -> None:
    long = call("fetch", url=server.add("/long", b"line\n" * 30_000))
    assert "text" not in long and len(long["head"]) == 2000
    assert call("read_file", path=long["path"])["text"] == "line\n" * 30_000
    binary = call("fetch", url=server.add("/bin", b"\x89PNG\0\1\2\xff", "image/png"))
    assert binary["binary"] and call.run.log.blobs.get(binary["blob"]) == b"\x89PNG\0\1\2\xff"


def test_data_urls(call: Any) -> None:
    assert call("fetch", url="data:,a%20b")["text"] == "a b"
    assert call("fetch", url="data:text/html;charset=utf-8;base64,PGI+w7w8L2I+")["text"] == "<b>ü</b>"
    assert refused(call, url="data:nothing").code == "bad_url"


def test_what_cannot_be_asked_is_named(call: Any, server: Server, tmp_path: Path) -> None:
    for url in ("file:///etc/passwd", "ftp://x/y", "nonsense", "http://", "http://[::1", ""):
        assert refused(call, url=url).code == "bad_url", url
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert refused(call, url=f"http://127.0.0.1:{port}/").code == "connection_failed"
    assert refused(call, url="http://no-such-host.invalid/").code == "host_unknown"
    assert refused(call, url=server.url.replace("http:", "https:") + "/x").code == "tls_failed"

    def garbage() -> None:
        with listening:
            other, _ = listening.accept()
            other.recv(1000)
            other.sendall(b"220 mail ready\r\n")
            other.close()

    listening = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=garbage, daemon=True).start()
    assert refused(call, url=f"http://127.0.0.1:{listening.getsockname()[1]}/").code == "http_failed"


@pytest.mark.skipif(shutil.which("unshare") is None, reason="only Linux can take the network away from one process")
def test_without_a_network_the_error_comes_at_once(workspace: Path) -> None:
    argv = ["unshare", "-rn", *self_command("call", "fetch", "--json", "url=https://example.org/")]
    done = subprocess.run(argv, cwd=workspace, capture_output=True, text=True, timeout=60)
    if "unshare" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert json.loads(done.stdout)["error"]["code"] in ("host_unknown", "connection_failed")
