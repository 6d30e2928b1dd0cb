"""The real PyTorch 2.6.0 tree, and torchwheel installed beside it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import debian_root
import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
INTERPRETER = "/opt/torchwheel/bin/python"
DISTRIBUTIONS = (
    "filelock", "packaging", "pathspec", "platformdirs", "pyproject-hooks", "scikit-build-core",
    "tomlkit",
)  # fmt: skip


def _wheelhouse() -> Path:
    """torchwheel's own wheel and what it needs, all pure Python, so that they fit the Python inside."""
    folder = debian_root.ROOT / "root" / "wheels"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, "download", "--no-deps", "-d", str(folder), *DISTRIBUTIONS], check=True)
    subprocess.run([*pip, "wheel", "--no-deps", "-w", str(folder), str(REPOSITORY)], check=True)
    return folder


@pytest.fixture(scope="session")
def torchwheel() -> str:
    """torchwheel's command inside the system that holds the real tree."""
    reason = debian_root.reason_to_skip()
    if reason:
        pytest.skip(reason)
    debian_root.prepare()
    wheels = _wheelhouse()
    debian_root.enter(["python3", "-m", "venv", "--clear", "--system-site-packages", "/opt/torchwheel"])
    install = [INTERPRETER, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--ignore-installed"]
    names = [debian_root.inside(path) for path in sorted(wheels.glob("*.whl"))]
    debian_root.enter([*install, *names])
    return "/opt/torchwheel/bin/torchwheel"
