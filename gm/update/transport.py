"""The updater's two requests: the conditional one for the manifest, and the archive's with resume.

httpx2 follows the redirects and the proxy variables; TLS is judged by the system's trust store.
"""

from __future__ import annotations

import hashlib
import os
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx2

from gm import __version__
from gm.errors import Unavailable
from gm.update.manifest import MAX_BYTES, TargetEntry
from installer.faults import point

Progress = Callable[[int, int], None]

ATTEMPTS = 5
"""Attempts in a row that bring no further byte before a download is given up."""

_TIMEOUT = httpx2.Timeout(30.0, connect=15.0)
_DOWNLOAD_S = 3600.0
_REDIRECTS = 5


@dataclass(frozen=True, slots=True)
class Answer:
    """The manifest's answer: unchanged without a body, or a body with its ETag."""

    unchanged: bool
    body: bytes = b""
    etag: str | None = None


def open_client() -> httpx2.Client:
    """Return a client with the system's trust store, the certificates of SSL_CERT_FILE and the proxies of the user.

    Raises:
        Unavailable: a variable names certificates that cannot be read, or a proxy that cannot be used.
    """
    context = _tls_context()
    try:
        return httpx2.Client(
            verify=context,
            timeout=_TIMEOUT,
            follow_redirects=True,
            max_redirects=_REDIRECTS,
            headers={"User-Agent": f"gmnew/{__version__}", "Accept": "*/*", "Accept-Encoding": "identity"},
            event_hooks={"response": [_refuse_plain_redirect]},
        )
    except ImportError as error:
        raise Unavailable(
            "proxy_unusable",
            "a proxy variable (ALL_PROXY, HTTPS_PROXY or HTTP_PROXY) names a SOCKS proxy, which gm does not speak",
            "name an HTTP proxy, or the release's host in NO_PROXY",
        ) from error
    except (ValueError, httpx2.InvalidURL) as error:
        raise Unavailable(
            "proxy_unusable",
            f"a proxy variable (ALL_PROXY, HTTPS_PROXY or HTTP_PROXY) names no proxy: {error}",
            "mend the variable",
        ) from error


def _tls_context() -> ssl.SSLContext:
    import truststore

    context = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    file = os.environ.get("SSL_CERT_FILE")
    if file and os.path.isfile(file):
        try:
            context.load_verify_locations(cafile=file)
        except OSError as error:  # ssl.SSLError is one
            raise Unavailable(
                "no_certificates", f"SSL_CERT_FILE names {file}, which cannot be read: {error.strerror or error}"
            ) from error
    return context


def _refuse_plain_redirect(response: httpx2.Response) -> None:
    if not response.has_redirect_location:
        return
    following = response.url.join(response.headers["location"])
    if response.url.scheme == "https" and following.scheme != "https":
        raise httpx2.UnsupportedProtocol("a redirect leads from https to http", request=response.request)


def fetch_manifest(client: httpx2.Client, url: str, etag: str | None) -> Answer:
    """Ask for the manifest unless it is still the one with `etag`.

    Raises:
        Unavailable: no answer, or one that is neither 200 nor 304, or one that is too long.
    """
    headers = {"If-None-Match": etag} if etag else {}
    try:
        with client.stream("GET", url, headers=headers) as response:
            if response.status_code == 304:
                return Answer(unchanged=True)
            if response.status_code != 200:
                raise Unavailable("no_manifest", f"{url} answers {response.status_code}")
            body = bytearray()
            for chunk in response.iter_bytes():
                body += chunk
                if len(body) > MAX_BYTES:
                    raise Unavailable("no_manifest", f"{url} answers with more than {MAX_BYTES} bytes")
            return Answer(unchanged=False, body=bytes(body), etag=response.headers.get("etag"))
    except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
        raise Unavailable("no_manifest", f"{url} gives no answer: {_reason(error)}") from error


def download(
    client: httpx2.Client,
    url: str,
    entry: TargetEntry,
    target: Path,
    *,
    progress: Progress | None = None,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Download an archive to `target`, going on where an earlier attempt ended, and check its size and sha256.

    Raises:
        Unavailable: it cannot be had, is longer than the manifest says, or has another sha256; `target` is removed
            when its bytes are wrong and kept for a later attempt when they are only too few.
        OSError: the disk is full or not writable.
    """
    deadline = time.monotonic() + _DOWNLOAD_S
    fruitless, reason = 0, ""
    while fruitless < ATTEMPTS:
        have = target.stat().st_size if target.exists() else 0
        if have == entry.size:
            if _sha256(target) == entry.sha256:
                return
            target.unlink()
            raise Unavailable("wrong_archive", f"{url} is not the archive that the manifest names (sha256 differs)")
        try:
            _continue(client, url, entry, target, have, progress, deadline)
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            reason = _reason(error)
        now = target.stat().st_size if target.exists() else 0
        if now != entry.size:
            fruitless = 0 if now > have else fruitless + 1
            if fruitless < ATTEMPTS:
                pause(min(0.2 * 2**fruitless, 5.0))
        if time.monotonic() > deadline:
            reason = f"no end within {_DOWNLOAD_S:g} s"
            break
    raise Unavailable("no_archive", f"{url} cannot be downloaded: {reason or 'the answer ends too early'}")


def _continue(
    client: httpx2.Client,
    url: str,
    entry: TargetEntry,
    target: Path,
    have: int,
    progress: Progress | None,
    deadline: float,
) -> None:
    headers = {"Range": f"bytes={have}-"} if have else {}
    with client.stream("GET", url, headers=headers) as response:
        status = response.status_code
        if status == 416:
            target.unlink(missing_ok=True)
            return
        if status not in (200, 206):
            raise httpx2.HTTPStatusError(f"it answers {status}", request=response.request, response=response)
        resumed = status == 206 and response.headers.get("content-range", "").startswith(f"bytes {have}-")
        if status == 206 and not resumed:
            raise httpx2.RemoteProtocolError("it answers with another range than was asked for")
        done = have if resumed else 0
        with target.open("r+b" if resumed else "wb") as file:
            file.seek(done)
            for chunk in response.iter_raw():
                if done + len(chunk) > entry.size:
                    file.truncate(0)
                    raise Unavailable("wrong_archive", f"{url} is longer than the {entry.size} bytes of the manifest")
                file.write(chunk)
                if done == 0:
                    file.flush()
                    point("download.begun")
                done += len(chunk)
                if progress is not None:
                    progress(done, entry.size)
                if time.monotonic() > deadline:
                    return
            file.flush()
            os.fsync(file.fileno())


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
