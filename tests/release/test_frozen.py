"""The frozen program from outside: its modules, its children's environment, its size, its bytes made twice."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import pkgutil
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gm.cli.checks import ELSEWHERE
from gm.cli.host import Host
from gm.protocol.server import SKILL_URI
from installer.build import read_build, verify_files
from release.freeze import ROOT, freeze, read_stamp
from release.pack import pack
from tests.release.session import frozen_build

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

MAX_ARCHIVE = 20_000_000
MAX_UNPACKED = 60_000_000


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return frozen_build(tmp_path_factory)


@pytest.fixture
def host(base: Path, tmp_path: Path):  # type: ignore[no-untyped-def]
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    environment: dict[str, str | None] = {
        "GMNEW_HOME": str(tmp_path / "home"),
        "LD_LIBRARY_PATH": "/opt/of/the/user",
        "SSL_CERT_FILE": None,
        "SSL_CERT_DIR": None,
    }
    with Host.start(workspace, command=[str(base / "gm"), "serve"], environment=environment) as host:
        host.open()
        host.request("resources/read", {"uri": SKILL_URI})
        host.call("next_context", task="Look at this build from inside.")
        yield host


def run(host: Host, code: str) -> object:
    answer = host.call("run_code", 120.0, code=code)
    assert not answer.failed, answer.text
    return json.loads(answer.text)


def left_out(table: str) -> dict[str, str]:
    """Return a table of gm.spec with its reasons."""
    tree = ast.parse((ROOT / "gm.spec").read_text())
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == table:
            value = ast.literal_eval(node.value)
            assert isinstance(value, dict)
            return value
    raise AssertionError(f"gm.spec has no {table}")


def test_what_is_left_out_has_reasons_and_the_check_knows_it() -> None:
    assert all(len(reason) > 3 for table in ("LEFT_OUT", "LEFT_OUT_STDLIB") for reason in left_out(table).values())
    assert set(left_out("LEFT_OUT_STDLIB")) <= ELSEWHERE


def standard_library() -> list[str]:
    """Return every module of this Python's standard library that can be imported here, but for what is left out."""
    names = []
    for name in sorted(sys.stdlib_module_names - ELSEWHERE):
        if name.startswith(("_test", "_xx", "xx")) or importlib.util.find_spec(name) is None:
            continue
        names.append(name)
        spec = importlib.util.find_spec(name)
        for found in pkgutil.walk_packages(spec.submodule_search_locations or [], name + ".", lambda _: None):
            if not {"test", "tests", "idle_test", "__main__"} & set(found.name.split(".")):
                names.append(found.name)
    code = "import importlib, sys, json, warnings; warnings.simplefilter('ignore'); good = []\n"
    code += "for name in json.load(sys.stdin):\n"
    code += "    try:\n        importlib.import_module(name); good.append(name)\n    except BaseException: pass\n"
    code += "print(json.dumps(good))"
    done = subprocess.run([sys.executable, "-c", code], input=json.dumps(names), capture_output=True, text=True)
    good: list[str] = json.loads(done.stdout.splitlines()[-1])
    return good


def test_a_body_imports_the_whole_standard_library(host: Host) -> None:
    names = standard_library()
    assert len(names) > 400
    code = f"import importlib, warnings\nwarnings.simplefilter('ignore')\nmissing = []\nfor name in {names!r}:\n"
    code += "    try:\n        importlib.import_module(name)\n    except ImportError as error:\n"
    code += "        missing.append(f'{name}: {error}')\nreturn missing"
    assert run(host, code) == []


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_process_pools_work_in_a_body_by_every_start_method(host: Host, method: str) -> None:
    """From Python 3.14 on `forkserver` is what a pool on Linux takes by itself."""
    code = "import concurrent.futures, math, multiprocessing\n"
    code += f"context = multiprocessing.get_context({method!r})\n"
    code += "with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:\n"
    code += "    return list(pool.map(math.sqrt, [1, 4, 9]))"
    assert run(host, code) == [1.0, 2.0, 3.0]


def test_children_inherit_the_users_library_path_and_nothing_of_the_bundle(host: Host) -> None:
    code = "import json, os\nr = await gm.run_shell(command='env -0')\n"
    code += "pairs = [p.partition('=') for p in r['stdout'].split(chr(0)) if '=' in p]\n"
    code += "return {k: v for k, _, v in pairs if k.startswith(('LD_', '_PYI', 'DYLD', 'SSL_CERT', 'PYINSTALLER'))}"
    assert run(host, code) == {"LD_LIBRARY_PATH": "/opt/of/the/user"}


def test_bash_and_git_work_below_the_frozen_program(host: Host) -> None:
    code = 'r = await gm.run_shell(command=\'bash -c "git --version" && python3 -c "import ssl, sqlite3; print(1)"\')\n'
    code += "return [r['exit'], r['stderr']]"
    assert run(host, code) == [0, ""]


def test_the_build_is_whole_and_small_enough(base: Path, tmp_path: Path) -> None:
    info = read_build(base)
    verify_files(base, info)
    unpacked = sum(path.stat().st_size for path in base.rglob("*") if path.is_file() and not path.is_symlink())
    entry = pack(base, tmp_path)
    assert entry.size <= MAX_ARCHIVE and unpacked <= MAX_UNPACKED, (entry.size, unpacked)
    assert info.glibc is not None and {path.name for path in base.iterdir()} == {
        *("gm", "gmloop", "_internal", "skills", "defaults", "build.json")
    }


def test_both_executables_answer(base: Path) -> None:
    for program in ("gm", "gmloop"):
        done = subprocess.run([base / program, "--version"], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and done.stdout.startswith(program), done


def test_the_frozen_program_passes_its_own_checks(base: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "GMNEW_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)}
    done = subprocess.run(
        [base / "gm", "tool", "check"], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="shown on Linux only")
def test_the_same_commit_frozen_twice_in_two_places_gives_the_same_bytes(tmp_path: Path) -> None:
    entries = []
    for name in ("one", "another place"):
        root = tmp_path / name / "checkout"
        root.parent.mkdir()
        clone = ["git", "clone", "-q", "--no-hardlinks", str(ROOT), str(root)]
        subprocess.run(clone, check=True, capture_output=True)
        out = tmp_path / name / "out"
        out.mkdir()
        folder = freeze(out, read_stamp(root, update_url="https://example.org/manifest.json"), root=root)
        entries.append(pack(folder, out))
        shutil.rmtree(folder)
    assert entries[0] == entries[1]
