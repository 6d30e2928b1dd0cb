"""The program, run in this process and as a process of its own, without the developer's environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.running import Result, Run
from torchwheel.cli.main import main

_KEPT = ("HOME", "LD_LIBRARY_PATH", "PATH", "SYSTEMROOT", "TEMP", "TMPDIR", "USERPROFILE")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder, in an environment that says nothing but where to find programs."""
    for name in os.environ.keys() - set(_KEPT):
        monkeypatch.delenv(name)
    # The program sets it for itself where a traceback is asked for; so it is taken back afterwards.
    monkeypatch.setenv("TORCHWHEEL_TRACEBACK", "")
    monkeypatch.delenv("TORCHWHEEL_TRACEBACK")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TORCHWHEEL_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("TORCHWHEEL_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "ici é"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def wide(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No text is wrapped."""
    monkeypatch.setenv("COLUMNS", "10000")


@pytest.fixture
def torchwheel(here: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command in this process; a fault of its own fails the test, unless it is ``faulty`` on purpose."""

    def run(*words: str | Path, faulty: bool = False) -> Result:
        capsys.readouterr()
        try:
            status = main([str(word) for word in words])
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
        captured = capsys.readouterr()
        assert faulty or "[internal-error]" not in captured.err, words
        return Result(status, captured.out, captured.err)

    return run


@pytest.fixture
def program(here: Path) -> Run:
    """Runs a command as a process of its own."""

    def run(*words: str | Path, text: bytes = b"") -> Result:
        command = [sys.executable, "-m", "torchwheel.cli.main", *map(str, words)]
        done = subprocess.run(
            command,
            input=text,
            capture_output=True,
            timeout=60,
            env={**os.environ, "PYTHONIOENCODING": "utf-8"},
            check=False,
        )
        out, err = (stream.decode("utf-8").replace("\r\n", "\n") for stream in (done.stdout, done.stderr))
        return Result(done.returncode, out, err)

    return run
