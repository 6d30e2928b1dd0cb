"""Wheels that are what was planned, and wheels that are not.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from torchwheel.wheel.contents import inspect_wheel
from torchwheel.wheel.proof import verify_wheel
from unit.wheel.test_verify import LIBRARY, planned


@pytest.mark.nvcc
def test_a_wheel_with_compiled_code(recipe: Any, nvcc: Callable[..., Path], tmp_path: Path) -> None:
    compiled = nvcc("kernel.so", "-shared", "-Xcompiler", "-fPIC", "-arch=sm_120").read_bytes()
    path = recipe(files={LIBRARY: compiled}).write(tmp_path)
    assert verify_wheel(inspect_wheel(path), planned("12.0+PTX")) == ()
    assert [problem.id for problem in verify_wheel(inspect_wheel(path), planned("12.1"))] == [
        "missing-device-code",
        "unplanned-device-code",
    ]
