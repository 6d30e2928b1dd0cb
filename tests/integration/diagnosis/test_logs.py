"""Every known failure has logs of its shape, and is found in them whatever wraps the lines.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

import random
import re
from functools import cache
from pathlib import Path

import pytest

from diagnosis.frames import FRAMES, JSON_FRAMES, with_frame
from unit.diagnosis.test_logs import FAILURES, WRAPPINGS, cause_of, diagnosed, expected_id, text_of

HARMLESS = Path(__file__).with_name("harmless_lines.txt").read_text(encoding="utf-8").splitlines()
NAMES = [*FRAMES, *JSON_FRAMES]
SHARE = 12
"""Each log is tried with one of so many frames, and every frame with other logs."""


@cache
def line_of_cause(path: Path) -> int:
    """The line of a log's cause, without any frame."""
    plain = diagnosed(text_of(path).encode()).cause
    assert plain is not None
    return plain.line.number


@pytest.mark.parametrize("name", WRAPPINGS)
def test_cause_is_found_in_every_log(name: str) -> None:
    wrap = WRAPPINGS[name]
    assert {path.name: cause_of(wrap(text_of(path))) for path in FAILURES} == {
        path.name: expected_id(path) for path in FAILURES
    }


def test_cause_is_found_among_the_lines_of_another_job() -> None:
    other = [f"[{n}/6931] Building CXX object third_party/job{n}/error_{n}.cpp.o\n" for n in range(60)]

    def mixed(text: str) -> bytes:
        lines = text.splitlines(keepends=True)
        return "".join(a + b for a, b in zip(lines, other, strict=False)).encode()

    assert {path.name: cause_of(mixed(text_of(path))) for path in FAILURES} == {
        path.name: expected_id(path) for path in FAILURES
    }


STEPS = {"docker": ("#7 1.234 ", "#8 0.981 "), "compose": ("builder-1  | ", "tests-1    | ")}
MIXED = {
    "cmake-cuda-architectures-empty.target.log",
    "cmake-download-changed.file.log",
    "cuda-not-found.caffe2.log",
    "gcc-too-new-for-cuda.configure.log",
    "no-cuda-compiler.warning.log",
}
"""The other step's lines stand within a message, or between a warning and its end: another of its lines is found."""


@pytest.mark.parametrize("name", STEPS)
def test_the_lines_of_another_step_change_neither_cause_nor_line(name: str) -> None:
    own, other = STEPS[name]
    changed = {}
    for path in FAILURES[len(name) % 4 :: 4]:
        sample = random.Random(path.name)
        pairs = [
            (f"{own}{line}\n", f"{other}{sample.choice(HARMLESS)}\n") for line in text_of(path).splitlines()
        ]
        cause = diagnosed("".join(a + b for a, b in pairs).encode()).cause
        expected = expected_id(path), 2 * line_of_cause(path) - 1
        if cause is None or (cause.entry.id, cause.line.number) != expected:
            changed[path.name] = cause and (cause.entry.id, cause.line.number)
    assert changed.keys() <= MIXED, changed


ABOVE_A_TRACEBACK = (
    "<string>:122: UserWarning: its compiler was not found.",
    "WARNING: no compiler, going on",
)
GOING_ON = {"cuda-too-old-for-pytorch.extension.log", "ninja-still-dirty.log"}
"""Below these exceptions, or before their tracebacks, is an ordinary line: as after an exception that was caught."""


@pytest.mark.parametrize("warning", ABOVE_A_TRACEBACK)
def test_a_warning_above_a_traceback_does_not_hide_its_exception(warning: str) -> None:
    changed = {}
    for path in FAILURES:
        text = text_of(path)
        warned = re.sub(r"(?m)^( *)(?=Traceback \(most recent)", rf"\1{warning}\n\1", text)
        if warned != text and cause_of(warned.encode()) != expected_id(path):
            changed[path.name] = cause_of(warned.encode())
    assert changed.keys() <= GOING_ON, changed


@pytest.mark.parametrize("part", range(4))
def test_a_frame_before_every_line_changes_neither_cause_nor_line(part: int) -> None:
    """One log in twelve for each frame, others for the next one; over all frames every log has its turn."""
    changed = {}
    for number, name in enumerate(NAMES):
        for path in FAILURES[number % SHARE :: SHARE][part::4]:
            framed = diagnosed(with_frame(name, text_of(path)).encode()).cause
            expected = expected_id(path), line_of_cause(path)
            if framed is None or (framed.entry.id, framed.line.number) != expected:
                changed[name, path.name] = framed and (framed.entry.id, framed.line.number)
    assert changed == {}
