"""Small wheels that can be installed: a torch of Python alone, and extensions of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from torchwheel.proof import Check
from torchwheel.verification.claims import run_checks
from torchwheel.wheel.contents import inspect_wheel
from wheel_samples import WheelRecipe

TORCH = """
from torch import __config__, _C, cuda, ops
from torch.version import __version__

class Tensor:
    def __init__(self, rows): self.rows = rows
    def to(self, device): return self
    def tolist(self): return self.rows

def tensor(rows, device="cpu"): return Tensor(rows)
def ones(rows, columns, device="cpu"): return Tensor([[1.0]])
def matmul(left, right):
    columns = list(zip(*right.rows))
    return Tensor([[sum(a * b for a, b in zip(row, column)) for column in columns] for row in left.rows])
"""
CUDA = """
def is_available(): return {available}
def device_count(): return 2
def get_device_capability(index=0): return ((9, 0), (12, 0))[index]
def get_device_name(index=0): return ("NVIDIA H100", "NVIDIA GeForce RTX 5070")[index]
def get_arch_list(): return []
"""


@dataclass
class TorchRecipe(WheelRecipe):
    """A torch that every Python can install, and that calculates."""

    version: str = "2.14.1+cu130.sm120"
    tag: str = "py3-none-any"
    available: bool = False
    torch: str = TORCH
    more: Mapping[str, bytes | None] = field(default_factory=dict)

    def write(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        self.files = {
            "torch/__init__.py": self.torch.encode(),
            "torch/_C.py": b"def _cuda_getArchFlags(): return 'sm_120'\n",
            "torch/__config__.py": b"def show(): return 'built with:\\n  USE_CUDA=ON'\n",
            "torch/cuda.py": CUDA.format(available=self.available).encode(),
            "torch/ops.py": b"def load_library(path): open(path).close()\n",
            **self.more,
        }
        return super().write(folder)


@pytest.fixture
def surroundings(tmp_path: Path) -> dict[str, str]:
    """Variables of a machine without a GPU and without any index."""
    folder = tmp_path / "bin"
    folder.mkdir()
    kept = {name: os.environ[name] for name in ("HOME", "LD_LIBRARY_PATH", "TMPDIR") if name in os.environ}
    path = os.pathsep.join([str(folder), str(Path(sys.executable).parent), os.environ["PATH"]])
    offline = {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "UV_NO_CONFIG": "1", "UV_OFFLINE": "1"}
    return {**kept, **offline, "PATH": path}


@pytest.fixture
def gpus(surroundings: dict[str, str]) -> Callable[[str], None]:
    """Puts an nvidia-smi with this answer on PATH."""
    if sys.platform == "win32":
        pytest.skip("the stand-in is a shell script")

    def answer(text: str) -> None:
        program = Path(surroundings["PATH"].split(os.pathsep)[0], "nvidia-smi")
        program.write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\n", encoding="utf-8")
        program.chmod(0o755)

    return answer


Checked = Callable[..., dict[str, Check]]


@pytest.fixture
def checked(surroundings: dict[str, str]) -> Checked:
    """Runs the checks of a wheel or folder, and returns them by name."""

    def run(path: Path, *, install: bool = False, more: tuple[str, ...] = ()) -> dict[str, Check]:
        found = list(run_checks(inspect_wheel(path), surroundings, install=install, more=more))
        assert len({one.name for one in found}) == len(found)
        return {one.name: one for one in found}

    return run
