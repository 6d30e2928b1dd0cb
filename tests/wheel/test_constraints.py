"""The constraints file, and what pip's rules make of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from torchwheel.errors import TorchwheelError
from torchwheel.wheel.constraints import constraints_text, write_constraints

TEXT = """\
# The label after + is part of the pin: torch==2.14.1 matches builds for any hardware, and of
# these pip takes the label that sorts last: +cu130 before +cu129.sm120, and sm90 before sm120.
torch==2.14.1+cu130.sm120
"""


def test_text() -> None:
    assert constraints_text("torch", "2.14.1+cu130.sm120") == TEXT


def test_what_the_text_says_is_so() -> None:
    pin = Requirement(TEXT.splitlines()[-1])
    assert list(pin.specifier.filter(["2.14.1", "2.14.1+cu130", "2.14.1+cu130.sm120"])) == [
        "2.14.1+cu130.sm120"
    ]
    assert Requirement("torch==2.14.1").specifier.contains("2.14.1+cu130.sm120")
    assert Version("2.14.1+cu130") > Version("2.14.1+cu129.sm120")
    assert Version("2.14.1+cu130.sm90") > Version("2.14.1+cu130.sm120")


def test_write_beside_the_wheel(tmp_path: Path) -> None:
    wheel = tmp_path / "torch-2.14.1+cu130.sm120-cp311-cp311-linux_x86_64.whl"
    path = write_constraints(wheel)
    assert path == tmp_path / "constraints-torch-2.14.1+cu130.sm120.txt"
    assert path.read_text(encoding="utf-8") == TEXT


def test_no_wheel(tmp_path: Path) -> None:
    with pytest.raises(TorchwheelError, match=r"'torch\.txt' is no file name of a wheel"):
        write_constraints(tmp_path / "torch.txt")
