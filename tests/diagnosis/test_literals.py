"""Literals that an expression needs, and what is found by them."""

from __future__ import annotations

import re

import pytest

from torchwheel.diagnosis import literals
from torchwheel.diagnosis.grammar import forms
from torchwheel.diagnosis.literals import ByLiteral, needed

LINES = [line for form in forms() for line in form.example.split("\n")]


@pytest.mark.parametrize(
    ("regex", "expected"),
    [
        (r"^(?P<file>[^:]+):\d+: fatal error: ", [": fatal error: "]),
        (r"(?:cannot|can not) find", [" find"]),
        (r"(?:cannot|unable to) \w", ["cannot", "unable to"]),
        (r"(?:no such|) \w", [" "]),
        (r"(?:not found)?: \w", [": "]),
        (r"(?:not found){1,3}: \w", ["not found"]),
        (r"a[bc]def(?!ghijk)", ["def"]),
        (r"(?i)not found", []),
        (r"(?i:not found)\w: ", [": "]),
        (r"\d+", []),
        (r"(?:\d|error)", []),
        ("", []),
    ],
)
def test_what_an_expression_needs(regex: str, expected: list[str]) -> None:
    assert list(needed(re.compile(regex))) == expected


def test_no_form_is_missed_by_its_literals() -> None:
    index = ByLiteral((form, needed(form.regex)) for form in forms())
    for line in LINES:
        candidates = index.candidates(line)
        assert [form for form in candidates if form.regex.search(line)] == [
            form for form in forms() if form.regex.search(line)
        ]
        assert len(candidates) < len(forms()) / 3


def test_few_forms_are_tried_on_every_line() -> None:
    assert len(ByLiteral((form, needed(form.regex)) for form in forms()).candidates("")) <= 14


def test_without_pythons_parser_everything_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(literals, "import_module", lambda name: __import__("no_module_of_this_name"))
    unknown = needed.__wrapped__
    assert unknown(re.compile("error")) == ()
    assert ByLiteral((form, unknown(form.regex)) for form in forms()).candidates("") == list(forms())
