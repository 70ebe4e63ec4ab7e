"""`gm call` beside a worker that ends without an answer."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gm.run.address import prepare_address
from gm.run.opening import begin_run
from tests.hosts import gm_command

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a Unix socket stands for the worker")


@pytest.mark.parametrize("reads", [True, False], ids=["closed", "reset"])
def test_a_worker_that_ends_before_it_answers_is_told(tmp_path: Path, reads: bool) -> None:
    run = begin_run(tmp_path.resolve(), {})
    run.record("context", step=1, task="be called")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(prepare_address(run.folder))
        listener.listen()

        def end() -> None:
            connection, _ = listener.accept()
            with connection:
                if reads:
                    connection.recv(1 << 16)

        worker = threading.Thread(target=end)
        worker.start()
        command = gm_command("call", "read_file", "path=a.txt")
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        worker.join(10)
    run.close()
    assert done.returncode == 1
    assert "The worker ended before it answered." in done.stderr and "Traceback" not in done.stderr
