"""Which of a log's errors is the cause, whatever harmless lines and consequences stand around it.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

import pytest

from places import LOGS
from torchwheel.diagnosis.endings import read_endings, settles
from torchwheel.diagnosis.failures import read_catalogue
from torchwheel.diagnosis.scanner import diagnose
from unit.diagnosis.test_causes import cause

LOGS = sorted(LOGS.glob("*.log"))
HARMLESS = Path(__file__).with_name("harmless_lines.txt").read_text(encoding="utf-8").splitlines()
"""What real runs of CMake, pip, ninja, make and setup.py print that end well."""
# A torch for the CPU compiles no CUDA sources.
TELLING = [one for one in HARMLESS if "+cpu" not in one]
WORDLESS = [one for one in TELLING if not any(end.regex.search(one) for end in read_endings())]
"""Those that do not tell of an end that went well."""
GIVE_WAY = {"capability-not-in-build", "driver-library-not-found", "numpy-1-and-2-mixed"}
"""Warnings alone, which give way to what ends well below them."""
SUCCEEDED = "succeeded"


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def between(lines: Sequence[str], harmless: Sequence[str]) -> list[str]:
    """``lines`` with a harmless one after every fourth, but not within a message of several lines."""
    mixed = []
    for number, (line, following, other) in enumerate(zip_longest(lines, lines[1:], harmless, fillvalue="")):
        mixed.append(line)
        if number % 4 == 3 and following and not following[0].isspace():
            mixed.append(other)
    return mixed


def test_there_are_a_thousand_harmless_lines_and_they_are_no_failure() -> None:
    assert len(set(HARMLESS)) >= 1000
    assert cause(HARMLESS) == "unknown"


@pytest.mark.parametrize("where", ["before", "after", "around", "between"])
def test_harmless_lines_change_no_answer(where: str) -> None:
    changed = {}
    for path in LOGS:
        lines, sample = lines_of(path), random.Random(f"{where} {path.name}")
        above, below = sample.sample(TELLING, 60), sample.sample(TELLING, 60)
        mixed = {
            "before": [*above, *lines],
            "after": [*lines, *below],
            "around": [*above, *lines, *below],
            "between": between(lines, sample.sample(WORDLESS, len(lines))),
        }[where]
        expected = path.name.split(".")[0]
        if expected in GIVE_WAY and where in ("after", "around") and cause(below) == SUCCEEDED:
            expected = SUCCEEDED
        if (found := cause(mixed)) != expected:
            changed[path.name] = found
    assert changed == {}


def test_each_harmless_line_before_and_after_a_failure_changes_nothing() -> None:
    failure = ["main.cpp:3:10: fatal error: yaml.h: No such file or directory", "compilation terminated."]
    changed = {line for line in HARMLESS if cause([line, *failure, line]) != "header-missing"}
    assert changed == set()


OTHER_WARNINGS = (
    "WARNING: Running pip as the 'root' user can result in broken permissions",
    "##[warning]Node.js 16 actions are deprecated. Please update the following actions: actions/checkout@v3",
    "[WARN] metrics endpoint took long to answer",
    "WARNING: The directory '/root/.cache/pip' is not owned by the current user. The cache has been disabled.",
)


@pytest.mark.parametrize("turn", range(len(OTHER_WARNINGS)))
def test_a_warning_right_below_a_cause_is_of_something_else(turn: int) -> None:
    changed = {}
    for number, path in enumerate(LOGS[turn::2]):
        lines = lines_of(path)
        plain = diagnose(["\n".join(lines).encode()]).cause
        assert plain is not None
        at, warning = plain.line.number, OTHER_WARNINGS[(turn + number) % len(OTHER_WARNINGS)]
        found = diagnose(["\n".join([*lines[:at], warning, *lines[at:]]).encode()]).cause
        if found is None or (found.entry.id, found.line.number) != (plain.entry.id, at):
            changed[path.name] = found and found.entry.id
    assert changed == {}


AFTERWARDS = """\
cp: cannot stat 'dist/x.whl': No such file or directory
ninja: error: loading 'build.ninja': No such file or directory
make: *** No targets specified and no makefile found.  Stop.
Error: could not load cache
Process completed with exit code 2.
subprocess.CalledProcessError: Command '['make']' returned non-zero exit status 2.
ERROR: Failed building wheel for torch
ERROR: Could not build wheels for torch, which is required to install pyproject.toml-based projects
The command '/bin/sh -c pip wheel .' returned a non-zero code: 137
error: Cannot build '/nix/store/abc-torch-2.7.drv'.
""".splitlines()


WARNINGS = {"capability-not-in-build"}
"""They give way to any failure, as a hint does."""
OF_A_WARNING = {"no-cuda-compiler.warning.log"}
"""What failed only warned of it, and the step that needed it failed later."""
ERRORS = [path for path in LOGS if path.name.split(".")[0] not in WARNINGS]


def test_what_a_script_prints_after_a_failure_is_never_the_cause() -> None:
    found = {path.name: cause([*lines_of(path), *AFTERWARDS]) for path in ERRORS}
    assert found == {path.name: path.name.split(".")[0] for path in ERRORS}


def test_of_two_failing_steps_of_make_k_the_first_is_the_cause() -> None:
    """A hint, a warning and what the second is known to explain give way to it, and none settles the first."""
    sample = random.Random("make -k")
    needles = [ending.needle for ending in read_endings()]
    logs = [log for log in LOGS if not any(settles(line, needles) for line in lines_of(log))]
    entries = {entry.id: entry for entry in read_catalogue()}
    stop = "make: *** [Makefile:3: a.o] Error 1"
    changed = {}
    for path in ERRORS:
        first, second = path.name.split(".")[0], sample.choice(logs)
        gives_way = entries[first].rank == 1 or path.name in OF_A_WARNING
        if gives_way or first in entries[second.name.split(".")[0]].explains:
            continue
        if (found := cause([*lines_of(path), stop, *lines_of(second)])) != first:
            changed[path.name, second.name] = found
    assert changed == {}
