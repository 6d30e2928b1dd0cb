"""examples/stable_kernel: what its sources may include. What it builds is tested in tests/integration/extension."""

from __future__ import annotations

import re

from places import REPOSITORY
from torchwheel.extension.options import described_extensions, read_extension_tables
from torchwheel.settings.project import read_project

EXAMPLE = REPOSITORY / "examples" / "stable_kernel"


def test_headers_are_those_of_the_stable_abi() -> None:
    included = {
        path.relative_to(EXAMPLE / "csrc").as_posix(): {
            name
            for name in re.findall(r"^#include <([^>]+\.h)>", path.read_text(encoding="utf-8"), re.MULTILINE)
            if not name.startswith(("torch/csrc/stable/", "torch/headeronly/"))
        }
        for path in (EXAMPLE / "csrc").rglob("*.*")
    }
    assert included == {
        "checks.h": set(),
        "kernels.h": set(),
        "module.h": {"Python.h"},
        "operators.cpp": set(),
        "swiglu.h": set(),
        "cuda/operators.cpp": {"cuda_runtime_api.h"},
        "cuda/swiglu.cu": {"cuda_bf16.h", "cuda_fp16.h", "cuda_runtime.h"},
    }


def test_device_code_reads_no_header_of_pytorch() -> None:
    text = (EXAMPLE / "csrc" / "cuda" / "swiglu.cu").read_text(encoding="utf-8")
    assert re.findall(r'^#include "([^"]+)"', text, re.MULTILINE) == ["../kernels.h", "../swiglu.h"]
    for header in ("kernels.h", "swiglu.h"):
        assert "torch/" not in (EXAMPLE / "csrc" / header).read_text(encoding="utf-8")


def test_one_module_is_for_every_pytorch_and_one_for_those_with_cuda() -> None:
    tables = read_extension_tables(read_project(EXAMPLE))
    extensions = described_extensions(tables, EXAMPLE, cuda=True)
    assert [(extension.name, extension.sources, extension.stable_abi) for extension in extensions] == [
        ("stable_kernel._C", ("csrc/operators.cpp",), "2.10"),
        ("stable_kernel._cuda", ("csrc/cuda/operators.cpp", "csrc/cuda/swiglu.cu"), "2.10"),
    ]
