"""Checks of a whole program from outside: `gm selfcheck` in seconds, `gm tool check` thoroughly."""

from __future__ import annotations

import hashlib
import http.server
import importlib
import json
import pkgutil
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from gm.cli.host import Answer, Host
from gm.errors import GmError
from gm.protocol.server import SKILL_URI
from gm.protocol.versions import HANDSHAKE_VERSIONS, STATELESS_VERSION
from gm.system.environ import child_environment
from gm.system.paths import bundle_folder, is_frozen
from gm.update.manifest import Manifest, TargetEntry
from gm.verbs.all import builtin_registry
from installer.build import BuildInfo, hash_file, identity, list_files, read_build
from installer.layout import Home
from installer.pointers import current_build

Say = Callable[[str], None]


class CheckFailed(GmError):
    """A check of the program did not hold."""


@contextmanager
def scratch() -> Iterator[tuple[Path, Mapping[str, str | None]]]:
    """Give an empty workspace and an environment whose home is beside it; both are removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="gm-check-"))
    try:
        workspace, home = folder / "workspace", folder / "home"
        workspace.mkdir()
        home.mkdir()
        yield workspace, {"GMNEW_HOME": str(home), "GMNEW_AUTO_UPDATE": "0", "GMNEW_TEST_FAULT": None}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def expect(holds: bool, what: str, answer: Answer | None = None) -> None:
    """Raise `CheckFailed` with the answer's text unless `holds`."""
    if not holds:
        detail = f": {answer.text[:500]}" if answer is not None else ""
        raise CheckFailed("check_failed", f"{what}{detail}")


def check_self(say: Say) -> None:
    """Open this very program as a host does, read the skill, run one body, import what updates need.

    Raises:
        CheckFailed: a step did not do what it must.
        GmError: the program did not answer.
    """
    check_imports()
    say("the updater's libraries can be imported")
    with scratch() as (workspace, environment), Host.start(workspace, environment=environment) as host:
        opened = host.open()
        expect(not opened.failed, "initialize fails", opened)
        say("initialize is answered")
        skill = host.request("resources/read", {"uri": SKILL_URI}, 20.0)
        expect(not skill.failed, "the skill cannot be read", skill)
        say("the skill is read")
        context = host.call("next_context", 20.0, task="Check this build.")
        expect(not context.failed, "next_context fails", context)
        ran = host.call("run_code", 20.0, code="return 6 * 7")
        expect(not ran.failed and "42" in ran.text, "run_code does not say 42", ran)
        say("a body runs")
        status = host.close()
        expect(status == 0, f"the server ends with status {status}")
        say("the server ends with its host")


def check_imports() -> None:
    """Import what an update needs: a build that cannot update must never be installed by an update."""
    try:
        import sqlite3
        import ssl

        import httpx2
        import nacl.signing
        import truststore

        from installer import adopt, archive, register
    except ImportError as error:
        raise CheckFailed("check_failed", f"a library is missing: {error}") from error
    expect(bool(sqlite3.sqlite_version and ssl.OPENSSL_VERSION), "sqlite3 or ssl is not whole")
    expect(all((httpx2.Client, nacl.signing.VerifyKey, truststore.SSLContext)), "a library is not whole")
    expect(all((adopt.adopt, archive.extract, register.register)), "the installer is not whole")


def all_checks() -> list[tuple[str, Callable[[], None]]]:
    """Return the checks of `gm tool check` with their names."""
    return [
        ("opens, reads the skill, runs a body", lambda: check_self(lambda text: None)),
        *(
            (f"speaks {version}", partial(check_version, version))
            for version in (*HANDSHAKE_VERSIONS, STATELESS_VERSION)
        ),
        ("both surfaces", check_surfaces),
        ("every verb once", check_verbs),
        ("every module of the standard library but the left out ones", check_standard_library),
        ("every module of gm", check_own_modules),
        ("an update from a local server", check_update),
    ]


def check_version(version: str) -> None:
    """Open in one protocol version and list the tools."""
    with scratch() as (workspace, environment), Host.start(workspace, environment=environment) as host:
        opened = host.open(version)
        expect(not opened.failed and opened.result is not None, "opening fails", opened)
        if version != STATELESS_VERSION:
            agreed = (opened.result or {}).get("protocolVersion")
            expect(agreed == version, f"asked for {version}, got {agreed}")
        listed = host.request("tools/list")
        expect(not listed.failed, "tools/list fails", listed)
        host.close()


def check_surfaces() -> None:
    """Compare the tools of both surfaces with what they must be."""
    verbs = {verb.name for verb in builtin_registry()}
    for surface, wanted in (("code", set()), ("tools", verbs)):
        with (
            scratch() as (workspace, environment),
            Host.start(workspace, "--surface", surface, environment=environment) as host,
        ):
            host.open()
            listed = host.request("tools/list")
            names = {tool["name"] for tool in (listed.result or {}).get("tools", [])}
            missing = ({"next_context", "run_code", "finish"} | wanted) - names
            expect(not missing, f"--surface {surface} lacks {', '.join(sorted(missing))}", listed)
            host.close()


_INSTEAD = {
    "fetch": 'await gm.fetch(url="http://127.0.0.1:9/")',
    "query_log": 'await gm.query_log(kind="shell", limit=5)',
    "impact": 'await gm.impact(diff="HEAD")',
    "job_start": 'await gm.job_start(name="server", command="exit 0")',
    "run_shell": 'await gm.run_shell(command="exit 0")',
    "prd_resolve": 'await gm.prd_resolve(id="parse-dates-kqzt", event=1)',
}
"""What is run in the place of a verb's own example when that one would reach out of the scratch folder."""


def check_verbs() -> None:
    """Run the example of each verb's documentation in an empty repository: a result or an error of gm, no fault."""
    with scratch() as (workspace, environment), Host.start(workspace, environment=environment) as host:
        (workspace / "README.md").write_text("# A scratch folder\n")
        subprocess.run(["git", "init", "-q"], cwd=workspace, env=child_environment(), check=True)
        host.open()
        host.request("resources/read", {"uri": SKILL_URI})
        host.call("next_context", task="Call every verb once.")
        faults = []
        for verb in builtin_registry():
            example = _INSTEAD.get(verb.name) or verb.sections.get("example") or f"await gm.{verb.name}()"
            body = "\n".join(f"    {line}" for line in example.splitlines())
            code = (
                f"try:\n{body}\nexcept Exception as error:\n    return getattr(error, 'code', repr(error))\nreturn 'ok'"
            )
            answer = host.call("run_code", 120.0, code=code)
            if answer.failed or "internal" in answer.text or "Error(" in answer.text:
                faults.append(f"{verb.name}: {answer.text[:200]}")
        host.close()
        expect(not faults, "; ".join(faults))


ELSEWHERE = {
    *("tkinter", "_tkinter", "turtle", "turtledemo", "idlelib", "test", "lib2to3", "nis", "ensurepip"),
    *("readline", "curses", "_curses", "_curses_panel", "this", "antigravity"),
}
"""Left out of the bundle on purpose; gm.spec says why."""

_OTHER_SYSTEMS = {
    *("_msi", "_overlapped", "_scproxy", "_winapi", "_winreg", "_wmi", "msilib", "msvcrt", "nt", "winreg", "winsound"),
    *("_aix_support", "_android_support", "_apple_support", "_ios_support", "_osx_support", "_pyrepl"),
    *("ossaudiodev", "posix", "pwd", "grp", "fcntl", "resource", "termios", "tty", "pty", "syslog", "spwd"),
    *("crypt", "_crypt", "_posixshmem", "_posixsubprocess", "nturl2path", "_dbm", "_gdbm", "venv"),
    "_zstd",  # where Python was built without libzstd
}
"""Exist on some systems only, so that their absence says nothing."""


def check_standard_library() -> None:
    """Import every top module of this Python's standard library, as a body may."""
    missing = []
    for name in sorted(sys.stdlib_module_names - ELSEWHERE - _OTHER_SYSTEMS):
        if name.startswith(("_test", "_xx", "xx")) or name in ("__main__", "_bootlocale"):
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                importlib.import_module(name)
        except ImportError as error:
            missing.append(f"{name} ({error})")
    expect(not missing, f"cannot be imported: {', '.join(missing)}")


def check_own_modules() -> None:
    """Import every module of gm and of the installer."""
    import gm
    import installer

    missing = []
    for package in (gm, installer):
        for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            if found.name.endswith("__main__"):
                continue
            try:
                importlib.import_module(found.name)
            except ImportError as error:
                missing.append(f"{found.name} ({error})")
    expect(not missing, f"cannot be imported: {', '.join(missing)}")


def check_update() -> None:
    """Install this very build in a scratch home, serve a successor of it on loopback, and update to that one.

    From a checkout there is no build to install, so nothing is checked.
    """
    if not is_frozen():
        return
    from gm.update.check import CheckOptions, check_once
    from gm.update.source import Source
    from installer.local import install_local

    with scratch() as (workspace, _), _served(workspace / "served") as url:
        home = Home(workspace / "home")
        install_local(home, bundle_folder())
        info = _successor(workspace)
        source = Source(f"{url}/manifest.json", {}, info.target)
        outcome = check_once(home, source, CheckOptions(asked=True))
        expect(outcome.kind == "updated", f"the update ends in {outcome.kind}: {outcome.message}")
        current = current_build(home)
        expect(current is not None and read_build(current).build == info.build, "current is not the successor")
        again = check_once(home, source, CheckOptions(asked=True))
        expect(again.kind == "unchanged", f"the second check ends in {again.kind}: {again.message}")


def _successor(workspace: Path) -> BuildInfo:
    """Pack a build with one more file than this one, and a manifest that names it, into `workspace/served`."""
    folder = workspace / "successor"
    shutil.copytree(bundle_folder(), folder, symlinks=True)
    (folder / "defaults" / "successor.txt").write_text("one file more\n")
    files = list_files(folder)
    info = replace(read_build(folder), files=files, build=identity(files), version="999.0.0", serial=10**6)
    info.write(folder)
    archive = workspace / "served" / "successor.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        tar.add(folder, f"gmnew-{info.target}")
    shutil.rmtree(folder)
    entry = TargetEntry(info.version, info.serial, info.build, archive.name, hash_file(archive), archive.stat().st_size)
    manifest = Manifest(info.serial, info.version, "", "", {info.target: entry})
    (archive.parent / "manifest.json").write_text(json.dumps(manifest.as_json()))
    return info


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    """Serve a folder on loopback; the ETag of a file is its sha256."""
    folder.mkdir()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = (folder / Path(self.path).name).read_bytes()
            etag = f'"{hashlib.sha256(body).hexdigest()}"'
            unchanged = self.headers.get("If-None-Match") == etag
            self.send_response_only(304 if unchanged else 200)
            self.send_header("ETag", etag)
            if not unchanged:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if not unchanged:
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
