"""The compilers' timing reports: recorded ones, and cl's as its documentation describes it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import torchwheel.extension.profile.phase_kinds as phase_kinds
from torchwheel._toml import read_toml
from torchwheel.extension.profile.model import Phase, PhaseKind
from torchwheel.extension.profile.reports import clang_phases, gcc_phases, msvc_phases, nvcc_phases

RECORDED = Path(__file__).with_name("recorded")

MSVC = r"""
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
    assert msvc_phases(MSVC.replace("\n", "\r\n")) == (
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


def test_every_table_of_phases_has_a_source_and_known_kinds() -> None:
    tables = read_toml(Path(phase_kinds.__file__).with_name("phases.toml"))
    assert list(tables) == ["gcc", "clang", "nvcc", "msvc"]
    for table in tables.values():
        assert table.pop("source").startswith("https://")
        assert set(table) <= {"preprocess", "front-end", "device", "host", "optimize", "assemble"}
