"""Every known failure has logs of its shape, and is found in them whatever wraps the lines.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

import pytest

from diagnosis.frames import FRAMES, JSON_FRAMES, with_frame
from unit.diagnosis.test_logs import FAILURES, WRAPPINGS, cause_of, diagnosed, expected_id, text_of

NAMES = [*FRAMES, *JSON_FRAMES]
SHARE = 12
"""Each log is tried with one of so many frames, and every frame with other logs."""


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


@pytest.mark.parametrize("part", range(4))
def test_a_frame_before_every_line_changes_neither_cause_nor_line(part: int) -> None:
    """One log in twelve for each frame, others for the next one; over all frames every log has its turn."""
    changed = {}
    for number, name in enumerate(NAMES):
        for path in FAILURES[number % SHARE :: SHARE][part::4]:
            plain = diagnosed(text_of(path).encode()).cause
            framed = diagnosed(with_frame(name, text_of(path)).encode()).cause
            assert plain is not None
            if framed is None or (framed.entry.id, framed.line.number) != (
                expected_id(path),
                plain.line.number,
            ):
                changed[name, path.name] = framed and (framed.entry.id, framed.line.number)
    assert changed == {}
