"""Every known failure has logs of its shape, and is found in them whatever wraps the lines.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

import pytest

from unit.diagnosis.test_logs import FAILURES, WRAPPINGS, cause_of, expected_id, text_of


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
