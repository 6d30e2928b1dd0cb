"""The YAML that is written, read back by two libraries: one of YAML 1.1, one of 1.2."""

from __future__ import annotations

import io
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from torchwheel.fleet.formats import yaml_document, yaml_text

# No file holds a lone surrogate as UTF-8.
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
SNAKES = st.text(st.sampled_from("ab0.-_:#'\"{}[],&*!|>%@` \n\t\\$~=yn"))
WORDS = st.sampled_from(
    ["on", "No", "null", "~", "3.10", "1e3", "0x10", ".5", ".inf", ".NaN", "=", "<<", "a: b"]
)
# A key may have 1024 characters on its line, and up to ten stand for one: https://yaml.org/spec/1.2.2/#742-flow-mappings
KEYS = (TEXT | SNAKES | WORDS).filter(lambda key: len(key) < 100)
VALUES = st.recursive(
    TEXT | SNAKES | WORDS | st.integers() | st.booleans(),
    lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner),
    max_leaves=12,
)


def read_as_1_1(text: str) -> Any:
    return yaml.safe_load(text)


def read_as_1_2(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(io.StringIO(text))


@pytest.mark.slow
@given(st.dictionaries(KEYS, VALUES, min_size=1))
def test_both_readers_find_what_was_written(document: dict[str, Any]) -> None:
    text = yaml_document(document)
    assert read_as_1_1(text) == document
    assert read_as_1_2(text) == document


def test_what_people_read_has_no_more_quotes_than_it_needs() -> None:
    document = {
        "on": {"push": {"tags": ["v*"]}, "workflow_dispatch": {}},
        "name": "${{ matrix.id }}",
        "uses": "actions/checkout@v6",
        "python": "3.10",
        "fail-fast": False,
        "minutes": 330,
        "run": "if true; then\n  echo '3: 4 # 5'\nfi\n",
        "none": [],
    }
    assert yaml_document(document) == (
        '"on":\n'
        "  push:\n"
        "    tags:\n"
        '      - "v*"\n'
        "  workflow_dispatch: {}\n"
        "name: ${{ matrix.id }}\n"
        "uses: actions/checkout@v6\n"
        'python: "3.10"\n'
        "fail-fast: false\n"
        "minutes: 330\n"
        "run: |\n"
        "  if true; then\n"
        "    echo '3: 4 # 5'\n"
        "  fi\n"
        "none: []\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        " a",
        "a ",
        "- a",
        "a: b",
        "a #b",
        "é",
        "\U0001f600",
        "\x85",
        "\u2028",
        "\x00",
        "\x7f",
        "a\rb",
        "a\n\n",
    ],
)
def test_a_text_stays_on_one_line_of_printable_ascii(text: str) -> None:
    written = yaml_text(text)
    assert written.isascii() and written.isprintable()
    assert read_as_1_1(f"a: {written}") == read_as_1_2(f"a: {written}") == {"a": text}
