"""How everything in a wheel runs on a GPU, and which GPU is meant."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchwheel.errors import TorchwheelError
from torchwheel.hardware.architecture import Architecture
from torchwheel.hardware.runs_on import HowItRuns
from torchwheel.wheel.contents import Library
from torchwheel.wheel.fatbinary import CodeImage, ImageKind
from torchwheel.wheel.inspection import Inspected, NamedGpu, named_gpus, suitability

KINDS = {"sm": ImageKind.SASS, "ptx": ImageKind.PTX, "lto": ImageKind.LTO_IR}
RTX5070 = NamedGpu("rtx5070", Architecture(12, 0))


def image(label: str, relocatable: bool = False) -> CodeImage:
    """The image of a label such as ``sm120`` or ``ptx90``."""
    kind = label.rstrip("0123456789af")
    number = int(label.removeprefix(kind).rstrip("af"))
    suffix = label[-1] if label[-1] in "af" else ""
    architecture = Architecture.from_dotted(f"{number // 10}.{number % 10}{suffix}")
    assert architecture is not None
    return CodeImage(architecture, KINDS[kind], relocatable, count=1, stored_size=100)


def inspected(**libraries: str) -> Inspected:
    """Something with these libraries, each with its labels."""
    return Inspected(
        Path("torch.whl"),
        "wheel",
        tuple(
            Library(f"{name}.so", 1000, tuple(map(image, labels.split())))
            for name, labels in libraries.items()
        ),
    )


@pytest.mark.parametrize(
    ("labels", "how"),
    [
        ("sm120", HowItRuns.NATIVE),
        ("sm80 sm120 ptx120", HowItRuns.NATIVE),
        ("sm80 ptx80", HowItRuns.PTX_JIT),
        ("sm80", HowItRuns.NO),
        ("sm121", HowItRuns.NO),
        ("lto120", HowItRuns.NO),
        ("", HowItRuns.NO),
    ],
)
def test_one_library(labels: str, how: HowItRuns) -> None:
    assert suitability(inspected(cuda=labels), RTX5070).how is how


def test_the_worst_library_decides_and_is_named() -> None:
    answer = suitability(inspected(cpu="", cuda="sm120", extra="ptx90", old="sm80"), RTX5070)
    assert answer.how is HowItRuns.NO
    assert answer.reason == (
        "old.so: sm_80 does not run on 12.0: machine code is bound to its major revision"
    )
    assert [(path, verdict.how.value) for path, verdict in answer.verdicts] == [
        ("old.so", "no"),
        ("extra.so", "ptx-jit"),
        ("cuda.so", "native"),
    ]


def test_a_minor_version_and_a_family() -> None:
    gb10 = NamedGpu("gb10", Architecture(12, 1))
    assert suitability(inspected(cuda="sm120"), gb10).how is HowItRuns.MINOR_VERSION
    assert suitability(inspected(cuda="sm120f"), gb10).how is HowItRuns.FAMILY
    assert suitability(inspected(cuda="sm120a"), gb10).how is HowItRuns.NO


def test_what_only_the_device_linker_can_use_does_not_count() -> None:
    library = Library("a.so", 1, (image("sm120", relocatable=True),))
    answer = suitability(Inspected(Path("a.so"), "library", (library,)), RTX5070)
    assert (answer.how, answer.reason) == (HowItRuns.NO, "there is no device code for 12.0")


@given(st.lists(st.sampled_from(["", "sm120", "sm80", "ptx90", "sm120 ptx120"]), min_size=1, max_size=4))
def test_the_whole_runs_where_every_part_with_device_code_does(parts: list[str]) -> None:
    named = {f"part{number}": labels for number, labels in enumerate(parts)}
    alone = [suitability(inspected(part=labels), RTX5070).how for labels in parts if labels]
    assert suitability(inspected(**named), RTX5070).how.runs == (
        bool(alone) and all(how.runs for how in alone)
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("RTX 5070", [("rtx5070", "12.0")]),
        ("NVIDIA A100-SXM4-80GB", [("a100", "8.0")]),
        ("12.0", [("12.0", "12.0")]),
        ("sm_90a", [("9.0", "9.0")]),
        ("8.0,8.6", [("8.0", "8.0"), ("8.6", "8.6")]),
    ],
)
def test_gpus_by_name_or_capability(name: str, expected: list[tuple[str, str]]) -> None:
    assert [(gpu.name, gpu.capability.dotted) for gpu in named_gpus([name, name], {})] == expected


def test_all_unknown_gpus_are_told_at_once() -> None:
    with pytest.raises(TorchwheelError) as error:
        named_gpus(["rtx5071", "zzz", "RTX 6000", "t4", "native"], {"PATH": ""})
    problems = error.value.problems
    assert [problem.id for problem in problems] == [
        "unknown-gpu",
        "unknown-gpu",
        "ambiguous-gpu",
        "no-gpu-found",
    ]
    assert [problem.remedy for problem in problems[:2]] == [
        "did you mean 'rtx5070'?",
        "name its compute capability instead, --gpu 12.0",
    ]
    assert problems[3].remedy == "name the GPU, for example --gpu rtx5070"


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in for nvidia-smi is a shell script")
def test_the_gpus_of_this_machine(tmp_path: Path) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'NVIDIA GeForce RTX 5070, 12.0'\n", encoding="utf-8")
    program.chmod(0o755)
    found = named_gpus(["native"], {"PATH": str(tmp_path)})
    assert found == (NamedGpu("NVIDIA GeForce RTX 5070", Architecture(12, 0)),)
