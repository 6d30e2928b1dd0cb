"""What ``make unit`` leaves out is there."""

from __future__ import annotations

from pathlib import Path

import pytest

import conftest


@pytest.mark.parametrize("name", conftest.COMPILING)
def test_what_is_said_to_compile_exists(name: str) -> None:
    path, _, function = name.partition("::")
    place = Path(conftest.__file__).parent / path
    assert place.exists()
    assert not function or f"def {function}(" in place.read_text(encoding="utf-8")
