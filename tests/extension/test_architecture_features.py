"""Which CUDA sources compile to the same code for every architecture."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchwheel.extension.compile.architecture_features import depends_on_architecture

PLAIN = "#include <cuda_runtime.h>\n#include <torch/types.h>\n__global__ void f(float* x) { *x += 1; }\n"


def _source(folder: Path, text: str) -> Path:
    file = folder / "k.cu"
    file.write_text(text, encoding="utf-8")
    return file


def test_a_plain_kernel_does_not(tmp_path: Path) -> None:
    assert depends_on_architecture(_source(tmp_path, PLAIN + "// reassembled basm asmx\n"), []) is False


@pytest.mark.parametrize(
    "line",
    [
        "#if __CUDA_ARCH__ >= 900",
        "#ifdef __CUDA_ARCH_FEAT_SM90_ALL",
        'asm volatile("cp.async.wait_all;");',
        '  asm("");',
        "#include <cub/cub.cuh>",
        "# include <cutlass/gemm.h>",
        "using namespace nvcuda;",
        "NV_IF_TARGET(NV_PROVIDES_SM_90, (x))",
    ],
)
def test_one_that_asks_for_it_does(tmp_path: Path, line: str) -> None:
    assert depends_on_architecture(_source(tmp_path, f"{PLAIN}{line}\n"), []) is True


def test_headers_of_the_project_count_with_all_that_they_include(tmp_path: Path) -> None:
    include = tmp_path / "include"
    (include / "deep").mkdir(parents=True)
    (tmp_path / "near.cuh").write_text(
        '#pragma once\n#include <deep/arch.cuh>\n#include "k.cu"\n', encoding="utf-8"
    )
    arch = include / "deep" / "arch.cuh"
    source = _source(tmp_path, PLAIN + '#include "near.cuh"\n')
    arch.write_text("// nothing\n", encoding="utf-8")
    assert depends_on_architecture(source, [include]) is False
    arch.write_text("#if __CUDA_ARCH__ < 800\n#endif\n", encoding="utf-8")
    assert depends_on_architecture(source, [include]) is True
    assert depends_on_architecture(source, []) is False


def test_what_cannot_be_read_counts_as_asking(tmp_path: Path) -> None:
    assert depends_on_architecture(tmp_path / "missing.cu", []) is True
