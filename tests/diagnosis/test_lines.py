"""Lines freed of what terminals, tools and CI systems put around them."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchwheel._toml import read_toml
from torchwheel.diagnosis import lines
from torchwheel.diagnosis.lines import LONGEST_TEXT, clean, strip_prefixes

PREFIXES = read_toml(Path(lines.__file__).with_name("prefixes.toml"))["prefix"]


@pytest.mark.parametrize("prefix", PREFIXES, ids=lambda prefix: prefix["tool"])
def test_every_prefix_comes_off(prefix: dict[str, str]) -> None:
    assert strip_prefixes(prefix["example"] + "error: it broke") == "error: it broke"
    assert strip_prefixes("      " + prefix["example"] + prefix["example"] + "it broke") == "it broke"


@pytest.mark.parametrize(
    "text",
    [
        "    raise OSError('CUDA_HOME')",
        "/usr/include/math.h:12:3: error: it broke",
        "C:\\dev\\pytorch\\c10\\a.cpp(12): fatal error C1060: compiler is out of heap space",
        "make[2]: *** [foo.o] Error 1",
        "FAILED: foo.o",
        "12 errors detected",
        "E: Unable to locate package",
    ],
)
def test_a_line_without_prefix_stays(text: str) -> None:
    assert clean(text.encode()) == text


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"[1/9] Building a.o\r[2/9] Building b.o\rerror: it broke", "error: it broke"),
        (b"error: it broke\r", "error: it broke"),
        (b"\r\r", ""),
        (b"[01;31merror: [m[Kit [1mbroke[0m", "error: it broke"),
        (b"bell\x07 and\x00 zero", "bell and zero"),
        (b"a\tb  ", "a\tb"),
        ("größer".encode("latin-1"), "gr��er"),
        (b"x" * 9000, "x" * LONGEST_TEXT),
        (
            b"2026-06-27T19:59:59.0879266Z #24 11.24   \xe2\x94\x82 [12/345] nvcc fatal   : it broke",
            "nvcc fatal   : it broke",
        ),
    ],
)
def test_clean(raw: bytes, text: str) -> None:
    assert clean(raw) == text
