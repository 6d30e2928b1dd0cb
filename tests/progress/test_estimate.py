"""How long is left: by what was measured, by the kind of file, and by this build's own pace."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from progress.test_record import BUILD, WHOLE
from torchwheel._toml import read_toml
from torchwheel.progress import estimate
from torchwheel.progress.estimate import Estimate, step_seconds
from torchwheel.progress.record import Running, Step

STARTED = replace(WHOLE, started=0.0, finished=0, total=4, running=(), steps=())


def step(output: str, seconds: float, start: float = 0.0) -> Step:
    return Step(output, None, start, start + seconds, cost=seconds)


def test_what_is_left_runs_side_by_side() -> None:
    known = {name: step(name, 100.0) for name in ("a.o", "b.o", "c.o", "d.o")}
    left = Estimate(known, known, ()).left
    assert left(STARTED, 0.0) == 200.0
    assert left(replace(STARTED, build=replace(BUILD, jobs=8)), 0.0) == 100.0
    half = replace(STARTED, finished=2, steps=(known["a.o"], known["b.o"]))
    assert left(half, 0.0) == 100.0
    running = replace(half, running=(Running("c.o", None, 20.0, 0),))
    # One of the two that are left has 70 seconds behind it.
    assert left(running, 90.0) == 65.0


def test_the_longest_step_decides_in_the_end() -> None:
    known = {"a.o": step("a.o", 10.0), "b.o": step("b.o", 600.0)}
    last = replace(
        STARTED, finished=1, total=2, running=(Running("b.o", None, 0.0, 0),), steps=(known["a.o"],)
    )
    assert Estimate(known, known, ()).left(last, 100.0) == 500.0
    assert Estimate(known, known, ()).left(last, 700.0) == 0.0


def test_what_was_made_before_counts_only_where_ninja_counts_it() -> None:
    known = {"a.o": step("a.o", 100.0), "b.o": step("b.o", 300.0), "c.o": step("c.o", 50.0)}
    left = Estimate(known, known, {"a.o", "b.o"}).left
    one = replace(STARTED, build=replace(BUILD, jobs=1), total=1)
    assert left(one, 0.0) == 50.0
    # One more than is new: of the two others, nobody knows which.
    assert left(replace(one, total=2), 0.0) == 250.0


def test_the_pace_of_this_build_counts() -> None:
    known = {name: step(name, 100.0) for name in ("a.o", "b.o")}
    slow = replace(STARTED, finished=1, total=2, steps=(step("a.o", 260.0),))
    # 20 seconds of trust in what was expected: (260 + 20) / (100 + 20).
    assert Estimate(known, known, ()).left(slow, 300.0) == pytest.approx(100 * 280 / 120)


def test_nothing_is_said_where_nothing_is_known() -> None:
    assert Estimate({}, (), ()).left(STARTED, 0.0) is None
    assert Estimate({}, ("a.o",), ()).left(replace(STARTED, total=0), 0.0) is None


@pytest.mark.parametrize(
    ("output", "seconds"),
    [
        ("third_party/flash-attention/flash_fwd_hdim128_bf16_sm80.cu.o", 200),
        ("aten/src/ATen/native/transformers/cuda/attention_backward.cu.o", 200),
        ("caffe2/CMakeFiles/torch_cuda.dir/__/aten/native/cuda/Sort.cu.o", 40),
        ("ext/kernels.cu.obj", 40),
        ("sgemm.c.o", 2),
        ("XNNPACK/f32.c.obj", 2),
        ("Attention.cpp.o", 10),
        ("lib/libtorch_cpu.so", 1),
        ("gen.h", 1),
    ],
)
def test_the_kind_of_a_file_gives_a_first_guess(output: str, seconds: float) -> None:
    assert step_seconds(output, {}) == seconds
    assert step_seconds(output, {output: step(output, 7.0)}) == 7.0


def test_the_kinds_are_whole() -> None:
    kinds = read_toml(Path(estimate.__file__).with_name("kinds.toml"))["kind"]
    assert all(set(kind) == {"pattern", "seconds", "measured", "source"} for kind in kinds)
    assert all(kind["seconds"] > 0 and re.compile(kind["pattern"]) for kind in kinds)
    assert kinds[-1]["pattern"] == ".*"
