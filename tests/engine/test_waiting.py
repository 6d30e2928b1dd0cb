"""An interpreter that is started before it is known what it will run."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from torchwheel.engine import waiting
from torchwheel.engine.process import ProcessFailed, run_streaming

PROGRAM = """\
import json, os, sys
given, home, bytecode = os.environ.get("GIVEN"), os.environ.get("HOME"), sys.flags.dont_write_bytecode
print(json.dumps([sys.argv[1:], os.getcwd(), given, home, sys.path[0], bytecode]), flush=True)
print("on stderr", file=sys.stderr)
assert sys.stdin.read() == ""
sys.exit(int(sys.argv[1]))
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    file = tmp_path / "ein Programm é" / "program.py"
    file.parent.mkdir()
    file.write_text(PROGRAM, encoding="utf-8")
    return file


@pytest.fixture(autouse=True)
def none_left() -> Iterator[None]:
    yield
    for process in waiting._waiting:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(20)
    waiting._waiting.clear()


def _run(program: Path, tmp_path: Path, status: str = "0", **more: str) -> list[str]:
    kept = {name: value for name, value in os.environ.items() if name != "HOME"}
    log = tmp_path / "log"
    command = [sys.executable, str(program), status, "zwei drei"]
    environment = {**kept, "GIVEN": "wért", "PYTHONDONTWRITEBYTECODE": "1", **more}
    try:
        run_streaming(command, folder=tmp_path, environment=environment, log=log)
    finally:
        lines = log.read_text(encoding="utf-8").splitlines()[1:]
    return lines


def test_it_runs_the_program_as_a_new_interpreter_would(program: Path, tmp_path: Path) -> None:
    new = _run(program, tmp_path)
    assert json.loads(new[0]) == [["0", "zwei drei"], str(tmp_path), "wért", None, str(program.parent), 1]
    assert new[1:] == ["on stderr"]
    (tmp_path / "log").unlink()
    waiting.start_waiting()
    (process,) = waiting._waiting
    assert _run(program, tmp_path) == new
    assert process.wait(20) == 0


def test_its_failure_is_the_programs(program: Path, tmp_path: Path) -> None:
    waiting.start_waiting()
    with pytest.raises(ProcessFailed) as caught:
        _run(program, tmp_path, "3")
    assert caught.value.code == 3


def test_another_interpreter_or_environment_takes_a_new_one(program: Path, tmp_path: Path) -> None:
    waiting.start_waiting()
    (process,) = waiting._waiting
    assert waiting.give_work(["/usr/bin/other", "x.py"], tmp_path, os.environ) is None
    assert process.wait(20) == 0
    waiting.start_waiting()
    (process,) = waiting._waiting
    changed = {**os.environ, "PYTHONHASHSEED": "1"}
    assert waiting.give_work([sys.executable, "x.py"], tmp_path, changed) is None
    assert process.wait(20) == 0
    assert waiting.give_work([sys.executable, "x.py"], tmp_path, os.environ) is None


def test_without_work_it_ends_with_this_process() -> None:
    waiting.start_waiting()
    (process,) = waiting._waiting
    assert process.stdin is not None and process.stdout is not None
    process.stdin.close()
    assert process.wait(20) == 0
    assert process.stdout.read() == b""
