"""Every attempt of the recorded builds: all that torchwheel says, in order, at the earliest moment."""

from __future__ import annotations

import pytest

from places import REPOSITORY
from replays.replay import FOLDER, STAGES, attempts
from replays.table import page
from replays.telling import telling
from torchwheel.system.toml import read_toml

PAGE = REPOSITORY / "docs" / "replays.md"
NAMES = [
    *("000-1", "000-2", "000-3", "000-4", "000-5-planned", "001"),
    *("002-1", "002-2", "002-3", "002-4", "002-5"),
    *("003-1", "003-2", "003-3", "003-4-target-alone"),
    *("004-1", "004-2", "004-3", "004-4", "004-5"),
    *("today-gb10", "today-rtx5070", "today-rtx5070-old-driver"),
]


def stems(folder: str) -> set[str]:
    return {path.name for path in (FOLDER / folder).iterdir()}


@pytest.mark.parametrize("name", NAMES)
def test_what_torchwheel_says(name: str) -> None:
    attempt, told = attempts()[name], telling(name)
    assert [str(one) for one in told.said] == [str(one) for one in attempt.expected]
    assert {*attempt.passes} <= {*told.passed}
    assert {option: told.defines.get(option) for option in attempt.defines} == attempt.defines


def test_no_attempt_and_no_record_is_left_over() -> None:
    every = attempts().values()
    assert sorted(attempts()) == sorted(NAMES)
    assert stems("hosts") == {f"{attempt.host}.toml" for attempt in every}
    assert stems("trees") == {f"{attempt.tree}.toml" for attempt in every}
    assert stems("logs") == {attempt.log for attempt in every} - {""}


def test_attempts_are_answered_by_what_is_said() -> None:
    for attempt in attempts().values():
        known = {one.id for one in attempt.expected} | {*attempt.passes}
        assert attempt.answers, attempt.name
        assert set(attempt.answers) <= known, attempt.name
        assert {one.stage for one in attempt.expected} <= set(STAGES), attempt.name


def test_a_search_path_that_is_not_set_is_no_problem() -> None:
    """The first two attempts of seed 002 differ in LD_LIBRARY_PATH alone, and before a build in nothing else."""
    unset, set_ = attempts()["002-1"], attempts()["002-2"]
    assert set_.environment == {**unset.environment, "LD_LIBRARY_PATH": "/usr/local/cuda/lib64"}
    before_building = [
        [one for one in attempt.expected if one.stage != "diagnose"] for attempt in (unset, set_)
    ]
    assert before_building[0] == before_building[1]


def test_the_final_script_is_planned_to_the_flag() -> None:
    """Not one of its options is missing from the attempt that names the target alone, but for those that harm or
    that no tree reads.
    """
    final, alone = attempts()["003-3"], attempts()["003-4-target-alone"]
    asked = {
        key.removeprefix("define."): value for key, value in final.config.items() if key.startswith("define.")
    }
    assert alone.config == {"target": "rtx5070"}
    harm = {"CMAKE_C_FLAGS", "CMAKE_CXX_FLAGS", "CMAKE_CUDA_FLAGS", "CMAKE_CUDA_ARCHITECTURES"}
    left_out = harm | {"CAFFE2_USE_PTHREADPOOL"}
    slashed = {name: value.replace("\\", "/") for name, value in alone.defines.items()}
    assert slashed == {
        name: value.replace("\\", "/") for name, value in asked.items() if name not in left_out
    }
    assert len(asked) == 24


def test_trees_are_recorded_with_their_source() -> None:
    for name in stems("trees"):
        assert read_toml(FOLDER / "trees" / name)["source"].startswith("https://github.com/pytorch/pytorch/")


def test_the_page_is_not_stale() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), (
        "run: PYTHONPATH=tests python -m replays.table > docs/replays.md"
    )
