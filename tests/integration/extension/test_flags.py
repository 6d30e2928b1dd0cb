"""nvcc's options for architectures.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from torchwheel.extension.device_code import own_architectures
from torchwheel.wheel.contents import read_library


@pytest.mark.nvcc
@pytest.mark.parametrize(
    "flags",
    [
        ["-arch=compute_80", "-code=sm_80,sm_86"],
        ["-arch=compute_80", "-code=compute_80,sm_80"],
        ["-arch=compute_90", "-gencode=arch=compute_120,code=sm_120"],
        ["-code=sm_80", "-arch=compute_80", "-gencode=arch=compute_90,code=sm_90"],
        ["-arch=sm_90"],
    ],
)
def test_flags_mean_what_nvcc_makes_of_them(flags: list[str], tmp_path: Path) -> None:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("there is no nvcc on PATH")
    source, module = tmp_path / "k.cu", tmp_path / "k.so"
    source.write_text("__global__ void k(float* x) { x[threadIdx.x] *= 2; }\n", encoding="utf-8")
    command = [nvcc, *flags, "-Xcompiler=-fPIC", "-shared", str(source), "-o", str(module)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    own = own_architectures(flags, "setup.py").architectures
    assert own is not None
    assert sorted(own.labels) == sorted(
        image.label for image in read_library("library", module).images if image.runs
    )
