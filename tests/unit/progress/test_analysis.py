"""What a record tells of a build."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from progress.test_record import BUILD, WHOLE
from torchwheel.progress.build_record import BuildRecord, TimedStep
from torchwheel.progress.page import analyse_record, component_of_step, kind_of_step


def record(*steps: TimedStep, folder: str = "/nowhere") -> BuildRecord:
    return replace(WHOLE, build=replace(BUILD, folder=folder), steps=steps)


def step(output: str, start: float, end: float, peak: int | None = None) -> TimedStep:
    return TimedStep(output, None, start, end, peak)


def test_steps_that_run_at_once_have_lanes_of_their_own() -> None:
    made = analyse_record(
        record(
            step("c.o", 1002, 1004), step("a.o", 1000, 1002), step("b.o", 1000, 1003), step("d.o", 1003, 1009)
        ),
        "",
    )
    assert [(bar.step.output, bar.lane, bar.start, bar.end) for bar in made.bars] == [
        ("a.o", 0, 0, 2),
        ("b.o", 1, 0, 3),
        ("c.o", 0, 2, 4),
        ("d.o", 1, 3, 9),
    ]
    assert (made.lanes, made.seconds, made.busy, made.breaks) == (2, 9, 13, ())


def test_what_lies_between_two_builds_is_cut_out() -> None:
    made = analyse_record(record(step("a.o", 0, 10), step("b.o", 20, 30), step("c.o", 1000, 1010)), "")
    assert [(bar.start, bar.end) for bar in made.bars] == [(0, 10), (20, 30), (30, 40)]
    assert (made.breaks, made.seconds) == ((30,), 40)


GRAPH = """\
digraph ninja {
"0x1" [label="lib/a.so"]
"0x2" [label="LINK", shape=ellipse]
"0x2" -> "0x1"
"0x3" -> "0x2" [arrowhead=none]
"0x4" -> "0x2" [arrowhead=none]
"0x3" [label="a.o"]
"0x5" -> "0x3" [label=" CXX"]
"0x4" [label="b.o"]
"0x6" -> "0x4" [label=" phony"]
"0x5" [label="gen.h"]
"0x6" [label="/tree/b.cpp"]
"0x1" -> "0x7" [label=" phony"]
"0x7" [label="all"]
}
"""


def test_the_critical_path_follows_what_needs_what() -> None:
    steps = (
        step("gen.h", 0, 4),
        step("b.o", 0, 9),
        step("a.o", 4, 10),
        step("lib/a.so", 10, 11),
        step("x.o", 0, 99),
    )
    assert [one.output for one in analyse_record(record(*steps), GRAPH).critical] == [
        "gen.h",
        "a.o",
        "lib/a.so",
    ]
    slower = (*steps[:1], step("b.o", 0, 10.5), *steps[2:])
    assert [one.output for one in analyse_record(record(*slower), GRAPH).critical] == ["b.o", "lib/a.so"]
    assert analyse_record(record(*steps), GRAPH + '"0x7" -> "0x5"\n').critical == ()
    assert analyse_record(record(*steps), "").critical == ()


@pytest.mark.parametrize(
    ("output", "what", "part"),
    [
        ("aten/CMakeFiles/torch_cpu.dir/__/a.cpp.o", "C++", "torch_cpu"),
        ("CMakeFiles/k.dir/a.cu.o", "CUDA", "k"),
        ("x/CMakeFiles/k.dir/a.c.obj", "C", "k"),
        ("lib/libtorch_cpu.so", "link", "torch_cpu"),
        ("lib/_C.cpython-311-x86_64-linux-gnu.so", "link", "_C"),
        ("bin/test_operators", "link", "test_operators"),
        ("aten/src/ATen/Functions.h", "other", "aten/src/ATen/"),
    ],
)
def test_kind_and_component_are_in_the_name(output: str, what: str, part: str) -> None:
    assert (kind_of_step(output), component_of_step(output)) == (what, part)


def test_parts_are_added_up_and_libraries_measured(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/liba.so").write_bytes(b"x" * 7)
    (tmp_path / "lib/libb.a").write_bytes(b"x" * 9)
    steps = (
        step("CMakeFiles/a.dir/1.cpp.o", 0, 4, 5),
        step("CMakeFiles/a.dir/2.cpp.o", 0, 3),
        step("lib/liba.so", 4, 5, 9),
        step("lib/libb.a", 5, 7),
        step("lib/gone.so", 7, 8),
    )
    made = analyse_record(record(*steps, folder=str(tmp_path)), "")
    assert [(part.name, part.steps, part.seconds, part.peak) for part in made.components] == [
        ("a", 3, 8, 9),
        ("b", 1, 2, 0),
        ("gone", 1, 1, 0),
    ]
    assert made.sizes == (("lib/libb.a", 9), ("lib/liba.so", 7))
