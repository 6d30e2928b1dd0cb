"""Measuring sources with the compiler that is here, against headers of PyTorch's names."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from torchwheel.errors import TorchwheelError
from torchwheel.extension.model import Language
from torchwheel.extension.profile.measure import measure_project
from torchwheel.extension.profile.model import Compile, Compiles, PhaseKind, Profile

Project = Callable[..., Compiles]


@pytest.fixture(scope="module")
def compiler() -> str:
    found = shutil.which("g++") or shutil.which("clang++")
    if found is None:
        pytest.skip("there is no g++ or clang++ here")
    return found


@pytest.fixture
def project(tmp_path: Path, compiler: str) -> Project:
    """A project with sources of given texts; a dear torch/extension.h and cheap stable headers lie outside of it."""
    root, include = tmp_path / "proj é", tmp_path / "site-packages" / "torch" / "include"
    headers = {"torch/extension.h": "#include <regex>\n#include <iostream>\n"}
    headers |= {f"torch/csrc/stable/{name}.h": f"int {name};\n" for name in ("library", "tensor", "ops")}
    files = {root / "own.h": "#include <torch/extension.h>\n"} | {include / k: v for k, v in headers.items()}
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def make(*command: str, **sources: str) -> Compiles:
        compiles = []
        language, suffix = (Language.CUDA, ".cu") if command else (Language.CXX, ".cpp")
        for name, text in sources.items():
            (root / f"{name}{suffix}").write_text(text, encoding="utf-8")
            path = f"source/{name}{suffix}"
            files = ("-isystem", "torch/include", "-MMD", "-MF", "o.d", "-c", path, "-o", "m/x.o")
            compiles.append(
                Compile("m", (f"{name}{suffix}",), language, path, (*(command or (compiler,)), *files))
            )
        links = {"source": root, "torch": include.parent}
        return Compiles(project=root, folder=None, compiles=tuple(compiles), links=links, jobs=2)

    return make


def measured(compiles: Compiles, said: list[str] | None = None, memory: int | None = 8 << 30) -> Profile:
    say = [].append if said is None else said.append
    return measure_project(compiles, dict(os.environ), memory_bytes=memory, cores=3, say=say)


def test_what_a_source_costs_and_what_would_save(project: Project) -> None:
    said: list[str] = []
    compiles = project(
        dear='#include "own.h"\nint f() { return std::regex("a").mark_count(); }\n', cheap="int g;\n"
    )
    before = sorted(path for path in compiles.project.parent.rglob("*"))
    profile = measured(compiles, said)
    assert sorted(path for path in compiles.project.parent.rglob("*")) == before

    dear, cheap = profile.sources
    assert (dear.compile.name, cheap.compile.name) == ("dear.cpp", "cheap.cpp")
    assert dear.text is not None
    assert [header.name for header in dear.text.headers] == ["torch/extension.h"]
    assert dear.text.share(dear.text.headers[0]) > 0.99
    assert dear.headers_seconds is not None
    assert 0 < dear.headers_seconds < 2 * dear.usage.cost
    assert sum(phase.seconds for phase in dear.phases) == pytest.approx(dear.usage.cost)
    assert {phase.kind for phase in dear.phases} == {PhaseKind.FRONT_END, PhaseKind.GENERATE}
    assert dear.usage.peak_bytes is not None
    assert cheap.usage.peak_bytes is not None
    assert dear.usage.peak_bytes > cheap.usage.peak_bytes > 1 << 20
    assert (cheap.text.headers if cheap.text else None, cheap.headers_seconds) == ((), 0.0)
    assert profile.fitting_jobs == 3

    (header,) = profile.headers
    assert (header.name, header.sources) == ("torch/extension.h", ("dear.cpp",))
    assert header.seconds == dear.headers_seconds

    (saving,) = profile.savings
    assert (saving.rule.id, saving.sources) == ("stable-abi", ("dear.cpp",))
    assert 0.5 * dear.headers_seconds < saving.seconds <= dear.headers_seconds
    # The narrow headers do not exist in this PyTorch, so nothing is said of them.
    assert said[-1] == "headers alone: torch/library.h, ATen/core/Tensor.h, ATen/ops/empty_like.h"


def test_the_same_headers_are_measured_once(project: Project) -> None:
    said: list[str] = []
    text = "#include <torch/csrc/stable/ops.h>\n"
    profile = measured(project(a=text, b=text), said)
    assert [source.front_end_passes for source in profile.sources] == [1, 1]
    assert said.count("headers alone: torch/csrc/stable/ops.h") == 1
    assert said.count("an empty source") == 1


def test_memory_bounds_the_jobs(project: Project) -> None:
    compiles = project(a="int a;\n")
    assert measured(compiles, memory=None).fitting_jobs is None
    assert measured(compiles, memory=1).fitting_jobs == 1


def test_sources_that_do_not_compile_are_reported(project: Project) -> None:
    with pytest.raises(TorchwheelError) as caught:
        measured(project(a="int a\n", good="int g;\n", b="#include <no/such.h>\n"))
    first, second = caught.value.problems
    assert (first.id, first.origin) == ("source-does-not-compile", "m")
    assert first.what == "a.cpp does not compile, so there is nothing to measure"
    assert "source/a.cpp:1:" in first.why
    assert second.what == "b.cpp does not compile, so there is nothing to measure"
    assert "no/such.h" in second.why


def test_a_compiler_that_does_not_exist(project: Project) -> None:
    compiles = project(a="int a;\n")
    (one,) = compiles.compiles
    gone = Compile("m", one.sources, one.language, one.path, ("/no/compiler", "-c", one.path))
    with pytest.raises(TorchwheelError) as caught:
        measured(Compiles(compiles.project, None, (gone,), compiles.links))
    assert "/no/compiler ended with status 127" in str(caught.value)


@pytest.mark.nvcc
def test_a_cuda_source_pays_for_its_headers_in_every_pass(project: Project) -> None:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("there is no nvcc on PATH")
    kernel = "__global__ void k(float* x) { x[threadIdx.x] *= 2; }\n"
    images = ("-gencode=arch=compute_90,code=sm_90", "-gencode=arch=compute_120,code=sm_120")
    compiles = project(nvcc, *images, plain=kernel, dear=f"#include <torch/extension.h>\n{kernel}")
    profile = measured(compiles)
    dear, plain = profile.sources
    assert (dear.compile.name, plain.compile.name) == ("dear.cu", "plain.cu")
    assert (dear.front_end_passes, plain.front_end_passes) == (4, 4)
    assert (plain.text.headers if plain.text else None) == ()
    assert [header.name for header in dear.text.headers] == ["torch/extension.h"] if dear.text else False
    assert sum(phase.seconds for phase in dear.phases) == pytest.approx(dear.usage.cost)
    device = [phase.architecture for phase in dear.phases if phase.kind is PhaseKind.DEVICE]
    assert sorted(device) == ["compute_120", "compute_90"]

    by_rule = {saving.rule.id: saving for saving in profile.savings}
    assert by_rule["device-code-without-torch"].sources == ("dear.cu",)
    assert set(by_rule["single-pass"].sources) == {"dear.cu", "plain.cu"}
    assert dear.headers_seconds is not None
    assert 0 < by_rule["device-code-without-torch"].seconds <= dear.headers_seconds
