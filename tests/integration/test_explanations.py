"""``torchwheel explain`` knows every id that a message can carry, and shows each with the values of an example.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

from diagnosis.examples import FILE, written


def test_the_examples_of_diagnoses_are_what_their_logs_give() -> None:
    assert FILE.read_text(encoding="utf-8") == written(), "run: make docs"
