"""How long is left: by what was measured, by the kind of file, and by this build's own pace."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from progress.test_record import BUILD, WHOLE
from torchwheel.progress import estimate
from torchwheel.progress.build_record import BuildRecord, Running, TimedStep
from torchwheel.progress.estimate import Estimate, guess_step
from torchwheel.system.toml import read_toml

STARTED = replace(WHOLE, started=0.0, finished=0, total=4, running=(), steps=())


NOWHERE = (Path("/no/tree"), Path("/no/build"))


def step(output: str, seconds: float, start: float = 0.0) -> TimedStep:
    return TimedStep(output, None, start, start + seconds, cost=seconds)


def seconds_left(
    known: Mapping[str, TimedStep], record: BuildRecord, now: float, before: Collection[str] = ()
) -> float:
    """What is left of a build whose steps are all known."""
    left, guess = Estimate(known, dict.fromkeys(known), before, NOWHERE).estimate_left(record, now)
    assert left is not None
    assert not guess
    return left


def test_what_is_left_runs_side_by_side() -> None:
    known = {name: step(name, 100.0) for name in ("a.o", "b.o", "c.o", "d.o")}
    assert seconds_left(known, STARTED, 0.0) == 200.0
    assert seconds_left(known, replace(STARTED, build=replace(BUILD, jobs=8)), 0.0) == 100.0
    half = replace(STARTED, finished=2, steps=(known["a.o"], known["b.o"]))
    assert seconds_left(known, half, 0.0) == 100.0
    running = replace(half, running=(Running("c.o", None, 20.0, 0),))
    # One of the two that are left has 70 seconds behind it.
    assert seconds_left(known, running, 90.0) == 65.0


def test_the_longest_step_decides_in_the_end() -> None:
    known = {"a.o": step("a.o", 10.0), "b.o": step("b.o", 600.0)}
    last = replace(
        STARTED, finished=1, total=2, running=(Running("b.o", None, 0.0, 0),), steps=(known["a.o"],)
    )
    assert seconds_left(known, last, 100.0) == 500.0
    assert seconds_left(known, last, 700.0) == 0.0


def test_what_was_made_before_counts_only_where_ninja_counts_it() -> None:
    known = {"a.o": step("a.o", 100.0), "b.o": step("b.o", 300.0), "c.o": step("c.o", 50.0)}
    one = replace(STARTED, build=replace(BUILD, jobs=1), total=1)
    assert seconds_left(known, one, 0.0, {"a.o", "b.o"}) == 50.0
    # One more than is new: of the two others, nobody knows which.
    assert seconds_left(known, replace(one, total=2), 0.0, {"a.o", "b.o"}) == 250.0


def test_the_pace_of_this_build_counts() -> None:
    known = {name: step(name, 100.0) for name in ("a.o", "b.o")}
    slow = replace(STARTED, finished=1, total=2, steps=(step("a.o", 260.0),))
    # 20 seconds of trust in what was expected: (260 + 20) / (100 + 20).
    assert seconds_left(known, slow, 300.0) == pytest.approx(100 * 280 / 120)


def test_nothing_is_said_where_nothing_is_known() -> None:
    assert Estimate({}, {}, (), NOWHERE).estimate_left(STARTED, 0.0) == (None, False)
    assert Estimate({}, {"a.o": "a.cpp"}, (), NOWHERE).estimate_left(replace(STARTED, total=0), 0.0) == (
        None,
        False,
    )


# PyTorch 2.6.0 with CUDA 12.4 in the profile minimal, by two jobs: what each twentieth of its steps took, in the order
# of ninja's log. Of a kind: seconds expected of its files, and seconds that they took; other work came and went.
_TWENTIETHS: tuple[dict[str, tuple[int, int]], ...] = (
    {"own": (128, 68)},
    {"own": (394, 377)},
    {"own": (447, 677)},
    {"own": (705, 404)},
    {"own": (469, 522)},
    {"own": (329, 401), "generated": (976, 938)},
    {"own": (21, 77), "generated": (173, 292), "kernel": (1386, 2060)},
    {"own": (329, 1123), "generated": (796, 1788), "kernel": (22, 39)},
)
_ALL = {"own": 6369, "generated": 2449, "kernel": 4224, "cuda": 11859}
_SECONDS = 10
# Each kind's files, as long as expected to take so many seconds.
_FILES = {
    "own": ("own/{}.cpp", _SECONDS, 396),
    "generated": ("generated/{}.cpp", _SECONDS, 68),
    "kernel": ("native/cpu/{}.DEFAULT.cpp", 22, None),
    "cuda": ("{}.cu", _SECONDS, 4130),
}


def test_cheap_files_that_come_first_do_not_make_the_rest_cheap(tmp_path: Path) -> None:
    """At 5 % it said 29 minutes once, because c10's files are small; CUDA comes last, and is half of the work."""
    sources: dict[str, list[str]] = {}
    for kind, seconds in _ALL.items():
        name, each, rate = _FILES[kind]
        sources[kind] = [name.format(number) for number in range(round(seconds / each))]
        for source in sources[kind]:
            (tmp_path / source).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / source).touch()
            os.truncate(tmp_path / source, round(each / rate * 1e6) if rate else 50)
    every = [source for names in sources.values() for source in names]
    of = Estimate({}, {f"{source}.o": source for source in every}, (), (tmp_path, tmp_path / "build"))
    steps: list[TimedStep] = []
    minutes = []
    for twentieth in ({}, *_TWENTIETHS):
        for kind, (expected, taken) in twentieth.items():
            made = [sources[kind].pop() for _ in range(round(expected / _FILES[kind][1]))]
            steps += [TimedStep(f"{source}.o", source, 0.0, taken / len(made)) for source in made]
        record = replace(STARTED, total=len(every), finished=len(steps), steps=tuple(steps))
        left, guess = of.estimate_left(record, 0.0)
        assert left is not None
        assert guess
        minutes.append(round((left + sum(one.seconds for one in steps) / 2) / 60))
    # At each twentieth the whole build comes out much as at first, and as ``plan`` has it: 3 h to 4 h 30 min; at the
    # last two other work took its part of the processors.
    assert minutes == [208, 206, 206, 211, 204, 206, 206, 223, 252]


def test_what_an_interrupted_build_measured_tells_of_the_rest_of_its_kind(tmp_path: Path) -> None:
    for name in ("a.cpp", "b.cpp", "c.cpp", "d.cpp"):
        (tmp_path / name).touch()
        os.truncate(tmp_path / name, 100_000)
    sources = {f"{name}.o": f"{name}.cpp" for name in "abcd"}
    before = {name: step(name, 19.8) for name in ("a.o", "b.o", "c.o")}
    of = Estimate(before, sources, before, (tmp_path, tmp_path / "build"))
    one = replace(STARTED, build=replace(BUILD, jobs=1), total=1)
    # Three of four took half of what is expected of their size; of the fourth that counts by its share, and of the
    # machine by what is known of all of its files, as what they took (3 x 19.8 s) and by their size (4 x 39.6 s).
    machine = 1 - (3 * 39.6 - 3 * 19.8) / (3 * 19.8 + 4 * 39.6)
    assert of.estimate_left(one, 0.0) == (pytest.approx((0.25 * machine + 0.75 / 2) * 39.6), False)


def test_what_a_compiler_cache_answers_is_no_pace_and_is_expected_of_the_rest_of_its_kind(
    tmp_path: Path,
) -> None:
    sources = {f"{number}.o": f"{number}.cpp" for number in range(40)} | {"k.o": "k.cu"}
    of = Estimate({}, sources, (), (tmp_path, tmp_path / "build"))
    hits = tuple(TimedStep(f"{number}.o", None, 0.0, 0.5, hit=True, cost=None) for number in range(30))
    record = replace(STARTED, build=replace(BUILD, jobs=1), total=41, finished=30, steps=hits)
    # Three in four of the ten C++ files are expected to be answered too; no kernel was asked for.
    assert of.estimate_left(record, 0.0) == (pytest.approx(10 * (0.25 * 8.0 + 0.75 * 0.5) + 40.0), True)


def test_a_source_that_the_build_makes_is_looked_at_when_it_is_there(tmp_path: Path) -> None:
    build = tmp_path / "build"
    build.mkdir()
    of = Estimate({}, {"a.o": "a.cpp"}, (), (tmp_path / "source", build))
    one = replace(STARTED, total=1)
    assert of.estimate_left(one, 0.0) == (8.0, True)
    (build / "a.cpp").touch()
    os.truncate(build / "a.cpp", 2_000_000)
    assert of.estimate_left(one, 0.0) == (2 * 68.0, True)


@pytest.mark.parametrize(
    ("output", "source", "seconds"),
    [
        ("fa/flash_fwd_hdim128_bf16_sm80.cu.o", "fa/flash_fwd_hdim128_bf16_sm80.cu", 200),
        ("x.dir/attention_backward.cu.o", "aten/native/transformers/cuda/attention_backward.cu", 200),
        ("caffe2/torch_cuda.dir/__/aten/native/cuda/Sort.cu.o", "aten/native/cuda/Sort.cu", 40),
        ("ext/kernels.cu.obj", "ext/kernels.cu", 40),
        ("sgemm.c.o", "sgemm.c", 2),
        ("XNNPACK/f32.c.obj", "XNNPACK/f32.c", 2),
        ("caffe2/torch_cpu.dir/__/aten/RegisterCPU.cpp.o", "aten/RegisterCPU.cpp", 8),
        ("torch_cpu.dir/Attention.cpp.o", "/elsewhere/Attention.cpp", 8),
        ("lib/libtorch_cpu.so", None, 1),
        ("gen.h", None, 1),
        ("a.cpp.o", None, 10),
    ],
)
def test_the_kind_of_a_file_gives_a_first_guess(output: str, source: str | None, seconds: float) -> None:
    expected, _ = guess_step(output, source, NOWHERE)
    assert expected.seconds == seconds
    assert Estimate({output: step(output, 7.0)}, {output: source}, (), NOWHERE).estimate_left(
        replace(STARTED, total=1), 0.0
    ) == (7.0, False)


@pytest.mark.parametrize(
    ("place", "seconds"),
    [
        ("source/a.cpp", 39.6),
        ("source/generated/a.cpp", 6.8),
        ("source/build/a.cpp", 6.8),
        ("source/build/native/cpu/a.cpp.AVX2.cpp", 22),
        ("source/a.cu", 413),
        ("source/mem_eff_attention/kernels/a.cu", 40),
    ],
)
def test_the_size_of_a_source_gives_a_better_one(place: str, seconds: float, tmp_path: Path) -> None:
    file = tmp_path / place
    file.parent.mkdir(parents=True)
    file.touch()
    os.truncate(file, 100_000)
    folders = (tmp_path / "source", tmp_path / "source/build")
    expected, settled = guess_step("x.o", file.relative_to(folders[0]).as_posix(), folders)
    assert (expected.seconds, settled) == (pytest.approx(seconds), True)
    if place == "source/a.cpp":
        # A table of numbers.
        os.truncate(file, 10_000_000)
        assert guess_step("x.o", "a.cpp", folders)[0].seconds == 60


def test_the_kinds_are_whole() -> None:
    kinds = read_toml(Path(estimate.__file__).with_name("kinds.toml"))["kind"]
    always = {"pattern", "seconds", "measured", "source"}
    assert all(always <= set(kind) <= always | {"seconds-per-megabyte", "most"} for kind in kinds)
    assert all(kind["seconds"] > 0 and re.compile(kind["pattern"]) for kind in kinds)
    assert all(kind.get("seconds-per-megabyte", 1) > 0 for kind in kinds)
    assert all("seconds-per-megabyte" in kind for kind in kinds if "most" in kind)
    assert kinds[-1]["pattern"] == ".*"
