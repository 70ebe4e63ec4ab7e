"""A release server on loopback: ETags, ranges, redirects, TLS, and on order every fault that a real one can have."""

from __future__ import annotations

import datetime
import hashlib
import http.server
import ipaddress
import ssl
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Seen:
    """One request as it came in, with the bytes of both sides' headers and of the body that went out."""

    path: str
    status: int
    request_bytes: int
    response_bytes: int
    body_bytes: int
    headers: dict[str, str]


@dataclass
class Server:
    """What is served, and how. `faults[path]` is a queue: each request takes one.

    Faults: an int answers that status; `("cut", n)` ends the connection after n bytes; `("slow", s)` waits s seconds
    before the answer; `("body", b)` answers 200 with b; `("redirect", url)`; `("drip", n, s)` n bytes every s seconds;
    `"no-range"` ignores a range; `"gzip"` labels the body with a content encoding.
    """

    root: Path
    url: str = ""
    seen: list[Seen] = field(default_factory=list)
    faults: dict[str, deque[Any]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def order(self, path: str, *faults: Any) -> None:
        with self.lock:
            self.faults.setdefault(path, deque()).extend(faults)

    def requests(self, path: str) -> list[Seen]:
        with self.lock:
            return [seen for seen in self.seen if seen.path == path]


def _handler(server: Server) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            with server.lock:
                queue = server.faults.get(self.path)
                fault = queue.popleft() if queue else None
            kind = fault[0] if isinstance(fault, tuple) else fault
            if kind == "slow":
                time.sleep(fault[1])
            if isinstance(kind, int):
                return self.answer(kind, b"")
            if kind == "redirect":
                return self.answer(302, b"", {"Location": fault[1]})
            if kind == "body":
                return self.answer(200, fault[1])
            file = server.root / self.path.lstrip("/")
            if not file.is_file():
                return self.answer(404, b"not here")
            body = file.read_bytes()
            etag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
            if self.headers.get("If-None-Match") == etag:
                return self.answer(304, b"", {"ETag": etag})
            headers = {"ETag": etag, "Accept-Ranges": "bytes"}
            if kind == "gzip":
                headers["Content-Encoding"] = "gzip"
            status, wanted = 200, self.headers.get("Range")
            if wanted and kind != "no-range":
                start = int(wanted.removeprefix("bytes=").partition("-")[0])
                if start >= len(body):
                    return self.answer(416, b"")
                headers["Content-Range"] = f"bytes {start}-{len(body) - 1}/{len(body)}"
                status, body = 206, body[start:]
            return self.answer(status, body, headers, fault if kind in ("cut", "drip") else None)

        def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None, fault: Any = None) -> None:
            self.send_response_only(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            if status != 304:
                self.send_header("Content-Length", str(len(body)))
            head = sum(len(line) for line in self._headers_buffer)  # type: ignore[attr-defined]
            asked = len(self.raw_requestline) + sum(len(f"{n}: {v}\r\n") for n, v in self.headers.items())
            with server.lock:
                server.seen.append(Seen(self.path, status, asked, head, len(body), dict(self.headers)))
            self.end_headers()
            try:
                if fault is None:
                    self.wfile.write(body)
                elif fault[0] == "cut":
                    self.wfile.write(body[: fault[1]])
                    self.close_connection = True
                else:
                    for start in range(0, len(body), fault[1]):
                        self.wfile.write(body[start : start + fault[1]])
                        time.sleep(fault[2])
            except OSError:
                self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler


@contextmanager
def serve(root: Path, certificate: tuple[Path, Path] | None = None) -> Iterator[Server]:
    """Serve `root` on a free port of loopback, over TLS when a certificate and its key are given."""
    state = Server(root)
    web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(state))
    web.daemon_threads = True
    scheme = "http"
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        web.socket = context.wrap_socket(web.socket, server_side=True)
        scheme = "https"
    state.url = f"{scheme}://127.0.0.1:{web.server_address[1]}"
    thread = threading.Thread(target=web.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        web.shutdown()
        web.server_close()
        thread.join(timeout=10)


def make_authority(folder: Path) -> tuple[Path, tuple[Path, Path]]:
    """Make an authority and a certificate for 127.0.0.1 by it; return the authority's file and the server's pair."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    now = datetime.datetime.now(datetime.UTC)
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    names = [
        x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)]) for text in ("test authority", "127.0.0.1")
    ]
    pems = []
    for index in range(2):
        builder = (
            x509.CertificateBuilder()
            .subject_name(names[index])
            .issuer_name(names[0])
            .public_key(keys[index].public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=2))
            .add_extension(x509.BasicConstraints(ca=index == 0, path_length=None), critical=True)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(keys[0].public_key()), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(keys[index].public_key()), critical=False)
        )
        if index == 1:
            address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
            builder = builder.add_extension(x509.SubjectAlternativeName([address]), critical=False)
        else:
            usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
            builder = builder.add_extension(usage, critical=True)
        pems.append(builder.sign(keys[0], hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    private = keys[1].private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    files = [folder / "authority.pem", folder / "server.pem", folder / "server.key"]
    for file, content in zip(files, [pems[0], pems[1], private], strict=True):
        file.write_bytes(content)
    return files[0], (files[1], files[2])
