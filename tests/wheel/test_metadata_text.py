"""Changing single fields of METADATA and WHEEL."""

from __future__ import annotations

from email.parser import BytesParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchwheel.wheel.metadata_text import parse_metadata_text

METADATA = b"""Metadata-Version: 2.4
Name: kernels
Version: 1.2
Summary: eins, zwei \xe2\x80\x94 drei
License: one line
  and another
\tand a third
Requires-Dist: torch>=2.4
Requires-Dist: numpy
Requires-Dist: ninja; extra == 'build'
Provides-Extra: build
Description-Content-Type: text/markdown

# Version: 7

Requires-Dist: torch
"""


def test_nothing_changes_by_itself() -> None:
    assert bytes(parse_metadata_text(METADATA)) == METADATA


def test_values() -> None:
    text = parse_metadata_text(METADATA)
    assert text.values("requires-dist") == ("torch>=2.4", "numpy", "ninja; extra == 'build'")
    assert text.values("License") == ("one line and another and a third",)
    assert text.values("Author") == ()


def test_one_value_in_its_place() -> None:
    changed = bytes(parse_metadata_text(METADATA).replacing("Version", ["1.2+cu130.sm120"]))
    assert changed == METADATA.replace(b"\nVersion: 1.2\n", b"\nVersion: 1.2+cu130.sm120\n")


def test_some_of_several() -> None:
    changed = bytes(parse_metadata_text(METADATA).replacing("Requires-Dist", ["a", "b"], {"numpy"}))
    assert changed == METADATA.replace(b"Requires-Dist: numpy\n", b"Requires-Dist: a\nRequires-Dist: b\n")


def test_further_ones_follow_those_of_the_same_name() -> None:
    changed = bytes(parse_metadata_text(METADATA).replacing("Requires-Dist", ["a"], set()))
    assert changed == METADATA.replace(b"Provides-Extra", b"Requires-Dist: a\nProvides-Extra", 1)


def test_a_new_field_follows_all_others() -> None:
    changed = bytes(parse_metadata_text(METADATA).replacing("Author", ["me"], set()))
    assert changed == METADATA.replace(b"\n\n# Version", b"\nAuthor: me\n\n# Version", 1)


def test_several_fields_become_fewer() -> None:
    text = b"Wheel-Version: 1.0\nTag: cp311-cp311-linux_x86_64\nBuild: 1\nTag: cp312-cp312-linux_x86_64\n"
    changed = bytes(parse_metadata_text(text).replacing("Tag", ["cp310-abi3-linux_x86_64"]))
    assert changed == b"Wheel-Version: 1.0\nTag: cp310-abi3-linux_x86_64\nBuild: 1\n"


def test_line_ends_are_kept() -> None:
    windows = METADATA.replace(b"\n", b"\r\n")
    changed = bytes(parse_metadata_text(windows).replacing("Version", ["2"]))
    assert changed == windows.replace(b"\nVersion: 1.2\r\n", b"\nVersion: 2\r\n")


@pytest.mark.parametrize("name", ["Version", "License", "Requires-Dist", "X-New"])
def test_the_standard_library_reads_the_same(name: str) -> None:
    old = BytesParser().parsebytes(METADATA)
    new = BytesParser().parsebytes(bytes(parse_metadata_text(METADATA).replacing(name, ["x"])))
    assert new.get_all(name) == ["x"]
    others = [item for item in old.items() if item[0] != name]
    assert [item for item in new.items() if item[0] != name] == others
    assert new.get_payload() == old.get_payload()


@given(st.binary(max_size=200))
def test_any_bytes_stay_as_they_are(data: bytes) -> None:
    assert bytes(parse_metadata_text(data)) == data
