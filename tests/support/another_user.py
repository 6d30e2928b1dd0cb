"""Run the unit tests as a user without a name who may not enter what HOME and PATH name (``docker run -u 64999``).

    PYTHONPATH=tests:tests/support python tests/support/another_user.py [ARGUMENTS OF PYTEST]

Without root, or without a Python that every user may run, nothing is run, and a line says why.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from field.combinations import SUPPORTED, find_interpreter, find_pythons
from places import REPOSITORY

_USER = 64999
"""No user database has it; its cache without a home is in a folder of its own, too."""
_LEFT_OUT = shutil.ignore_patterns(
    ".venv", ".torch", ".field", ".ci", "demo", "__pycache__", ".*_cache", "mutants"
)


def main(arguments: list[str]) -> int:
    if os.name == "nt" or os.geteuid() != 0 or shutil.which("setpriv") is None:
        print("not run as another user: needs root and setpriv (util-linux)")
        return 0
    versions = [version for version in SUPPORTED if version in find_pythons()]
    pythons = (find_interpreter({"python": version, "user": "another"}) for version in versions)
    if (python := next(filter(None, pythons), None)) is None:
        print("not run as another user: other users may run none of the interpreters")
        return 0
    folder = Path(tempfile.mkdtemp(prefix="torchwheel-user-", dir="/var/tmp"))
    try:
        return _run(folder, python, arguments)
    finally:
        shutil.rmtree(folder)
        shutil.rmtree(f"/var/tmp/torchwheel-{_USER}", ignore_errors=True)


def _run(folder: Path, python: str, arguments: list[str]) -> int:
    repository, closed, temporary = folder / "tree", folder / "closed", folder / "tmp"
    shutil.copytree(REPOSITORY, repository, symlinks=True, ignore=_LEFT_OUT)
    temporary.mkdir()
    interpreter = _make_environment(folder / "venv", python, repository)
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, _USER, _USER, follow_symlinks=False)
    folder.chmod(0o755)
    (closed / "bin").mkdir(parents=True)
    closed.chmod(0o700)
    variables = {
        "HOME": str(closed),
        "PATH": os.pathsep.join([str(closed / "bin"), str(interpreter.parent), os.environ["PATH"]]),
        "TMPDIR": str(temporary),
    }
    user = ["setpriv", f"--reuid={_USER}", f"--regid={_USER}", "--clear-groups"]
    command = [*user, interpreter, "-m", "pytest", "tests/unit", "-n", "2", *arguments]
    return subprocess.run(command, cwd=repository, env={**os.environ, **variables}, check=False).returncode


def _make_environment(folder: Path, python: str, repository: Path) -> Path:
    """The interpreter of an environment with torchwheel and what its tests need."""
    uv = Path(sysconfig.get_path("scripts"), "uv")
    subprocess.run([uv, "venv", "--quiet", "--python", python, folder], check=True)
    interpreter = folder / "bin" / "python"
    # Copies, because the files get another owner.
    install = [uv, "pip", "install", "--quiet", "--link-mode", "copy", "--python", interpreter]
    subprocess.run([*install, "--group", "test", "--editable", repository], cwd=repository, check=True)
    return interpreter


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
