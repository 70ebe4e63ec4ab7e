"""Set-up and the two commands of the README: `python3 tasks.py demo` and `python3 tasks.py test`.

Standard library only, and readable by old Pythons, so that a machine with a too old `python3` gets a clear
sentence instead of a SyntaxError. It makes `.venv`, installs the project into it and runs the command there.
"""

import hashlib
import os
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.abspath(__file__))
VENV = os.path.join(ROOT, ".venv")
SUPPORTED = [(3, 13), (3, 12), (3, 14), (3, 11)]


def find_python():
    """Return the path of a supported Python: the running one, else the first on PATH that answers."""
    if (3, 11) <= sys.version_info[:2] <= (3, 14):
        return sys.executable
    for major, minor in SUPPORTED:
        path = shutil.which("python%d.%d" % (major, minor))
        if path and subprocess.call([path, "-c", "import venv"], stderr=subprocess.DEVNULL) == 0:
            return path
    sys.exit("gm needs Python 3.11 to 3.14; this is %d.%d, and no other was found on PATH." % sys.version_info[:2])


def venv_python():
    """Return the path of the environment's Python."""
    if os.name == "nt":
        return os.path.join(VENV, "Scripts", "python.exe")
    return os.path.join(VENV, "bin", "python")


def ensure_environment():
    """Make `.venv` with the project and its development tools, unless it is there and still fits."""
    with open(os.path.join(ROOT, "pyproject.toml"), "rb") as file:
        wanted = hashlib.sha256(file.read()).hexdigest()
    stamp = os.path.join(VENV, "gm-environment")
    if os.path.exists(stamp) and os.path.exists(venv_python()):
        with open(stamp) as file:
            if file.read() == wanted:
                return
    print("making the environment in .venv (once; about a minute)", file=sys.stderr, flush=True)
    if not os.path.exists(venv_python()):
        subprocess.check_call([find_python(), "-m", "venv", VENV])
    subprocess.check_call(
        [venv_python(), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-e", ROOT + "[dev]"]
    )
    with open(stamp, "w") as file:
        file.write(wanted)


COMMANDS = {
    "setup": [],
    "demo": [["-P", "-m", "gm", "demo"]],
    "test": [["-P", "-m", "pytest", "-n", "2", "-m", "not slow"]],
    "slow": [["-P", "-m", "pytest", "-n", "2", "-m", "slow"]],
    "lint": [["-m", "ruff", "check", "."], ["-m", "ruff", "format", "--check", "."]],
    "types": [["-m", "mypy"]],
}


def main():
    """Run one command; further arguments go to its last program."""
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        sys.exit("usage: python3 tasks.py {%s} [arguments]" % "|".join(COMMANDS))
    ensure_environment()
    steps = COMMANDS[sys.argv[1]]
    for index, step in enumerate(steps):
        extra = sys.argv[2:] if index == len(steps) - 1 else []
        status = subprocess.call([venv_python()] + step + extra, cwd=ROOT)
        if status:
            sys.exit(status)


if __name__ == "__main__":
    main()
