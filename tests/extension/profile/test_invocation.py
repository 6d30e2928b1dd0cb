"""Compile commands taken apart and put together again, and the compilers' timing reports."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchwheel.extension.model import Language
from torchwheel.extension.profile.invocation import (
    Invocation,
    clang_phases,
    gcc_phases,
    invocation_of,
    msvc_phases,
    nvcc_phases,
)
from torchwheel.extension.profile.model import Compile, Phase, PhaseKind

OUT, TIMES = Path("out.o"), Path("times.csv")


def compile_of(language: Language, path: str, *command: str) -> Compile:
    return Compile("m", (path,), language, path, command)


GNU = invocation_of(
    compile_of(
        Language.CXX, "source/a.cpp",
        "/usr/bin/g++", "-O3", "-DX", "-Iown", "-isystem", "torch/include",
        "-MMD", "-MF", "m/a.o.d", "-c", "source/a.cpp", "-o", "m/a.o",
    )
)  # fmt: skip
NVCC = invocation_of(
    compile_of(
        Language.CUDA, "source/a.cu",
        "toolkit/bin/nvcc", "-ccbin=/usr/bin/g++", "-gencode=arch=compute_90,code=sm_90", "-isystem", "torch/include",
        "-MMD", "-MF", "m/a.o.d", "-dc", "source/a.cu", "-o", "m/a.o",
    )
)  # fmt: skip
MSVC = Invocation("msvc", "cl.exe", ("/O2", "/external:IC:/torch/include", "/IC:/own"), Language.CXX)


def test_what_is_read_and_written_is_taken_out() -> None:
    flags = ("-O3", "-DX", "-Iown", "-isystem", "torch/include")
    assert Invocation("gcc", "/usr/bin/g++", flags, Language.CXX) == GNU
    assert GNU.include_dirs == ("own", "torch/include")
    assert (
        Invocation(
            "nvcc",
            "toolkit/bin/nvcc",
            ("-ccbin=/usr/bin/g++", "-gencode=arch=compute_90,code=sm_90", "-isystem", "torch/include"),
            Language.CUDA,
            relocatable=True,
        )
        == NVCC
    )
    assert MSVC.include_dirs == ("C:/torch/include", "C:/own")


def test_cmake_names_the_rule_of_a_depfile_too() -> None:
    words = "c++ -Ddemo -MD -MT CMakeFiles/a.cpp.o -MF CMakeFiles/a.cpp.o.d -o CMakeFiles/a.cpp.o -c /p/a.cpp"
    assert invocation_of(compile_of(Language.CXX, "/p/a.cpp", *words.split())).flags == ("-Ddemo",)


def test_msvc_names_the_language_with_the_source() -> None:
    words = "cl.exe /nologo /O2 /DX /showIncludes /c /TpC:/p/a.cpp /Fom/a.obj /Fdm/a.pdb"
    found = invocation_of(compile_of(Language.CXX, "C:/p/a.cpp", *words.split()))
    assert (found.program, found.flags) == ("cl.exe", ("/O2", "/DX"))


def test_gcc_commands() -> None:
    head = ("/usr/bin/g++", "-O3", "-DX", "-Iown", "-isystem", "torch/include")
    assert GNU.compiling("b.cpp", OUT) == (*head, "-c", "b.cpp", "-o", "out.o")
    assert GNU.timed("b.cpp", OUT, TIMES) == (*head, "-c", "b.cpp", "-o", "out.o", "-ftime-report")
    assert GNU.reading("b.cpp", OUT) == (*head, "-fsyntax-only", "b.cpp")
    assert GNU.preprocessing("b.cpp", OUT) == (*head, "-E", "b.cpp", "-o", "out.o")


def test_clang_writes_its_trace_beside_the_object() -> None:
    clang = Invocation("clang", "clang++", (), Language.CXX)
    assert clang.timed("b.cpp", OUT, TIMES) == ("clang++", "-c", "b.cpp", "-o", "out.o", "-ftime-trace")


def test_nvcc_commands() -> None:
    head = (NVCC.program, *NVCC.flags)
    assert NVCC.timed("b.cu", OUT, TIMES) == (*head, "-dc", "b.cu", "-o", "out.o", "--time", "times.csv")
    assert NVCC.reading("b.cu", OUT) == (*head, "-dc", "b.cu", "-o", "out.o")
    assert NVCC.preprocessing("b.cu", OUT) == (*head, "-E", "b.cu", "-o", "out.o")


def test_msvc_commands() -> None:
    head = ("cl.exe", *MSVC.flags)
    assert MSVC.compiling("C:/b.cpp", OUT) == (*head, "/c", "/TpC:/b.cpp", "/Foout.o")
    assert MSVC.timed("C:/b.cpp", OUT, TIMES) == (*head, "/c", "/TpC:/b.cpp", "/Foout.o", "/Bt+")
    assert MSVC.reading("C:/b.cpp", OUT) == (*head, "/Zs", "/TpC:/b.cpp")
    assert MSVC.preprocessing("C:/b.cpp", OUT) is None


def test_flags_can_be_left_out() -> None:
    assert GNU.without(("-O3", "-g")).flags == ("-DX", "-Iown", "-isystem", "torch/include")


RECORDED = Path(__file__).with_name("recorded")

MSVC_REPORT = r"""
time(C:\Program Files\VS\VC\Tools\MSVC\14.44.35207\bin\HostX64\x64\c1xx.dll)=1.25114s < 81409 - 93920 > BB [C:\é\a.cpp]
time(C:\Program Files\VS\VC\Tools\MSVC\14.44.35207\bin\HostX64\x64\c2.dll)=0.50000s < 93921 - 98921 > BB [C:\é\a.cpp]
time(C:\Program Files\VS\VC\Tools\MSVC\14.44.35207\bin\HostX64\x64\link.exe)=0.1s < 1 - 2 > BB
"""

FRONT_END, DEVICE, HOST = PhaseKind.FRONT_END, PhaseKind.DEVICE, PhaseKind.HOST
PREPROCESS, GENERATE, ASSEMBLE = PhaseKind.PREPROCESS, PhaseKind.GENERATE, PhaseKind.ASSEMBLE


def recorded(name: str) -> str:
    return (RECORDED / name).read_text(encoding="utf-8")


def rounded(phases: tuple[Phase, ...]) -> list[tuple[PhaseKind, str, float, str]]:
    return [(phase.kind, phase.name, round(phase.seconds, 7), phase.architecture) for phase in phases]


def test_gcc() -> None:
    assert gcc_phases(recorded("gcc-12.2-ftime-report.txt")) == (
        Phase(FRONT_END, "setup", 0.0),
        Phase(FRONT_END, "parsing", 0.53),
        Phase(FRONT_END, "lang. deferred", 0.03),
        Phase(GENERATE, "opt and generate", 0.08),
    )


def test_gcc_phases_are_its_whole_time() -> None:
    text = recorded("gcc-12.2-ftime-report.txt")
    total = re.search(r"TOTAL +: +([\d.]+) +([\d.]+)", text)
    assert total is not None
    assert sum(phase.seconds for phase in gcc_phases(text)) == pytest.approx(
        float(total[1]) + float(total[2])
    )


def test_clang() -> None:
    assert rounded(clang_phases(recorded("clang-14.0-ftime-trace.json"))) == [
        (FRONT_END, "Total Frontend", 0.240445, ""),
        (GENERATE, "Total Backend", 0.082257, ""),
    ]


def test_nvcc_with_two_passes() -> None:
    assert rounded(nvcc_phases(recorded("nvcc-13.0-two-passes.csv"))) == [
        (PREPROCESS, "gcc (preprocessing 4)", 0.057332, ""),
        (FRONT_END, "cudafe++", 0.213548, "compute_120"),
        (PREPROCESS, "gcc (preprocessing 1)", 0.060865, "compute_90"),
        (DEVICE, "cicc", 0.175911, "compute_90"),
        (ASSEMBLE, "ptxas", 0.020052, "sm_90"),
        (PREPROCESS, "gcc (preprocessing 1)", 0.059666, "compute_120"),
        (DEVICE, "cicc", 0.172387, "compute_120"),
        (ASSEMBLE, "ptxas", 0.014184, "sm_120"),
        (ASSEMBLE, "fatbinary", 0.003368, ""),
        (HOST, "gcc (compiling)", 0.159663, "compute_120"),
        (ASSEMBLE, "nvcc (driver)", 0.0007179, ""),
    ]


def test_nvcc_with_a_single_pass_runs_cicc_once() -> None:
    phases = nvcc_phases(recorded("nvcc-13.0-single-pass.csv"))
    device = [(phase.name, phase.architecture) for phase in phases if phase.kind is DEVICE]
    assert device == [("cicc", "compute_90")]
    assert [phase.architecture for phase in phases if phase.name == "ptxas"] == ["sm_90", "sm_120"]


@given(st.text(st.characters(exclude_categories=("C", "Z"), exclude_characters="/"), min_size=1, max_size=30))
def test_nvcc_does_not_quote_the_names_of_files(name: str) -> None:
    text = recorded("nvcc-13.0-two-passes.csv").replace("csrc/plain.cu", f"csrc/{name}, {name}.cu")
    assert nvcc_phases(text) == nvcc_phases(recorded("nvcc-13.0-two-passes.csv"))


def test_msvc() -> None:
    assert msvc_phases(MSVC_REPORT.replace("\n", "\r\n")) == (
        Phase(FRONT_END, "c1xx.dll", 1.25114),
        Phase(GENERATE, "c2.dll", 0.5),
    )


@pytest.mark.parametrize("read", [gcc_phases, clang_phases, nvcc_phases, msvc_phases])
@pytest.mark.parametrize(
    "text",
    [
        "",
        "error: no such thing",
        '{"traceEvents": 3}',
        "[]",
        "a , cicc ,  ,  ,  , nvcc , soon , ms",
        "cicc,ms",
    ],
)
def test_what_is_no_report_has_no_phases(read: object, text: str) -> None:
    assert callable(read)
    assert read(text) == ()
