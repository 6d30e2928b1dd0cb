"""A profile with everything in it, and what it is made of."""

from __future__ import annotations

from pathlib import Path

from torchwheel.extension.model import Language
from torchwheel.extension.profile.model import (
    AdviceRule,
    Compile,
    HeaderCost,
    HeaderText,
    Phase,
    PhaseKind,
    Profile,
    Saving,
    SourceProfile,
    SourceText,
    Usage,
)

GIB = 1 << 30


def compile_of(name: str, language: Language = Language.CXX, *, extension: str = "m") -> Compile:
    program = "nvcc" if language is Language.CUDA else "c++"
    return Compile(
        extension, (name,), language, f"source/{name}", (program, "-c", f"source/{name}", "-o", "x.o")
    )


def text_of(**sizes: int) -> SourceText:
    """A source's text; ``torch__extension`` is ``torch/extension.h``."""
    headers = tuple(HeaderText(f"{name.replace('__', '/')}.h", size, size) for name, size in sizes.items())
    return SourceText(headers, sum(sizes.values()) + 10, sum(sizes.values()) + 10)


FULL = SourceProfile(
    compile=compile_of("csrc/full.cpp"),
    usage=Usage(30.0, 20.0, 500 << 20),
    phases=(
        Phase(PhaseKind.FRONT_END, "parsing", 15.0),
        Phase(PhaseKind.GENERATE, "opt and generate", 5.0),
    ),
    text=text_of(torch__extension=90, vector=1),
    headers_seconds=14.0,
    front_end_passes=1,
)
KERNEL = SourceProfile(
    compile=compile_of("csrc/kernel.cu", Language.CUDA),
    usage=Usage(90.0, 80.0, 3 * GIB),
    phases=(
        Phase(PhaseKind.PREPROCESS, "gcc (preprocessing 4)", 2.0),
        Phase(PhaseKind.FRONT_END, "cudafe++", 20.0, "compute_90"),
        Phase(PhaseKind.PREPROCESS, "gcc (preprocessing 1)", 2.0, "compute_90"),
        Phase(PhaseKind.DEVICE, "cicc", 17.0, "compute_90"),
        Phase(PhaseKind.PREPROCESS, "gcc (preprocessing 1)", 2.0, "compute_120"),
        Phase(PhaseKind.DEVICE, "cicc", 19.0, "compute_120"),
        Phase(PhaseKind.HOST, "gcc (compiling)", 18.0, "compute_120"),
    ),
    text=text_of(torch__types=90),
    headers_seconds=75.0,
    front_end_passes=4,
)
UNTOLD = SourceProfile(
    compile=compile_of("csrc/plain.c", Language.C),
    usage=Usage(0.25),
    phases=(),
    text=None,
    headers_seconds=None,
    front_end_passes=1,
)
RULE = AdviceRule(
    id="device-code-without-torch",
    kind="headers",
    title="keep PyTorch's headers out of CUDA sources",
    text="Let the .cu file hold kernels.",
    elsewhere="115 s became 4.4 s",
    source="https://example.org/nvcc",
)
SAVING = Saving(
    RULE,
    seconds=74.0,
    sources=("csrc/kernel.cu",),
    reckoning="headers take 75.0 s now and 0.0 s without them",
)
PROFILE = Profile(
    project=Path("/projects/é"),
    sources=(KERNEL, FULL, UNTOLD),
    headers=(
        HeaderCost("torch/types.h", Language.CUDA, 74.0, ("csrc/kernel.cu",)),
        HeaderCost("odd.h", Language.CXX, None, ("csrc/full.cpp",)),
    ),
    savings=(SAVING,),
    seconds=100.25,
    jobs=2,
    fitting_jobs=1,
)
