"""METADATA: single fields changed, what a wheel requires, and the exact pin."""

from __future__ import annotations

from email.parser import BytesParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import error_of
from torchwheel.wheel.metadata import missing_bounds, parse_metadata_text, with_bounds, write_constraints

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


def test_values() -> None:
    text = parse_metadata_text(METADATA)
    assert text.values("requires-dist") == ("torch>=2.4", "numpy", "ninja; extra == 'build'")
    assert text.values("License") == ("one line and another and a third",)
    assert text.values("Author") == ()


def test_some_of_several() -> None:
    changed = bytes(parse_metadata_text(METADATA).replacing("Requires-Dist", ["a", "b"], {"numpy"}))
    assert changed == METADATA.replace(b"Requires-Dist: numpy\n", b"Requires-Dist: a\nRequires-Dist: b\n")


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


ABI = ("torch>=2.14,<2.15",)


def bounded(*requires: str, bounds: tuple[str, ...] = ABI) -> list[str]:
    text = "Name: kernels\n" + "".join(f"Requires-Dist: {value}\n" for value in requires) + "\nText\n"
    changed = with_bounds(parse_metadata_text(text.encode()), bounds, "wheel")
    assert bytes(changed).startswith(b"Name: kernels\n") and bytes(changed).endswith(b"\n\nText\n")
    return list(changed.values("Requires-Dist"))


@pytest.mark.parametrize(
    ("requires", "expected"),
    [
        ([], ["torch<2.15,>=2.14"]),
        (["numpy"], ["numpy", "torch<2.15,>=2.14"]),
        (["torch"], ["torch<2.15,>=2.14"]),
        (["torch>=2.4", "numpy"], ["torch<2.15,>=2.14,>=2.4", "numpy"]),
        (["Torch (>=2.4)", "torch!=2.14.0"], ["torch!=2.14.0,<2.15,>=2.14,>=2.4"]),
        (["torch[opt-einsum]==2.14.*"], ["torch[opt-einsum]<2.15,==2.14.*,>=2.14"]),
        (
            ["torch>=2.4; sys_platform == 'linux'", "torch; extra == 'all'"],
            ["torch>=2.4; sys_platform == 'linux'", "torch; extra == 'all'", "torch<2.15,>=2.14"],
        ),
        (
            ["torch @ https://example.org/torch.whl"],
            ["torch @ https://example.org/torch.whl", "torch<2.15,>=2.14"],
        ),
        (["torchvision", "not a requirement"], ["torchvision", "not a requirement", "torch<2.15,>=2.14"]),
    ],
)
def test_merged(requires: list[str], expected: list[str]) -> None:
    found = bounded(*requires)
    assert found == expected
    assert list(missing_bounds(found, ABI)) == []
    assert tuple(missing_bounds(requires, ABI)) == ABI


def test_twice_is_once() -> None:
    once = bounded("torch>=2.4")
    assert bounded(*once) == once


def test_no_bounds_change_nothing() -> None:
    assert bounded("torch (>=2.4)", bounds=()) == ["torch (>=2.4)"]


def test_contradictions() -> None:
    error = error_of(bounded, "torch>=2.4", "torch<2.10", "numpy<2", bounds=(*ABI, "numpy>=2"))
    found = [problem.what for problem in error.problems]
    assert [problem.id for problem in error.problems] == ["contradictory-requirements"] * 2
    assert "torch>=2.4 and torch<2.10" in found[0] and "numpy>=2" in found[1]


TEXT = """\
# The label after + is part of the pin: torch==2.14.1 matches builds for any hardware, and of
# these pip takes the label that sorts last: +cu130 before +cu129.sm120, and sm90 before sm120.
torch==2.14.1+cu130.sm120
"""


def test_write_beside_the_wheel(tmp_path: Path) -> None:
    wheel = tmp_path / "torch-2.14.1+cu130.sm120-cp311-cp311-linux_x86_64.whl"
    path = write_constraints(wheel)
    assert path == tmp_path / "constraints-torch-2.14.1+cu130.sm120.txt"
    assert path.read_text(encoding="utf-8") == TEXT
