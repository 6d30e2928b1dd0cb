"""Settings of a tree's own backend with which its wheel would be refused after the compile."""

from __future__ import annotations

from typing import Any

import pytest

from plan.planning import Planner

CPU = {"target": "cpu", "package-version": "2.14.1"}


def refused(plan: Planner, config: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one.id, one.problem.origin) for one in plan({**CPU, **config}).errors]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("wheel.tags", "py3-none-any"),
        ("skbuild.wheel.tags", ["cp311-cp311-manylinux_2_28_x86_64"]),
        ("wheel.py-api", "cp310"),
        ("wheel.platlib", False),
        ("wheel.install-dir", "elsewhere"),
    ],
)
def test_settings_that_name_another_wheel(plan: Planner, key: str, value: Any) -> None:
    assert refused(plan, {key: value}) == [("wheel-tag", f"-C {key.removeprefix('skbuild.')}")]
    # Somebody may know that the wheel runs on older systems.
    assert refused(plan, {key: value, "skip-check": "wheel-tag"}) == []


def test_an_empty_one_changes_nothing(plan: Planner) -> None:
    assert refused(plan, {"wheel.tags": "", "wheel.py-api": ""}) == []


@pytest.mark.parametrize(
    ("options", "refusals"),
    [
        ("--build-number=7", 1),
        (["--build-num", "7", "--compression=stored"], 1),
        ("-v --plat-name linux_aarch64 --py-limited-api=cp39", 1),
        ("--verbose --compression=deflated --keep-temp", 0),
    ],
)
def test_options_of_bdist_wheel(legacy_plan: Planner, options: Any, refusals: int) -> None:
    made = refused(legacy_plan, {"--build-option": options})
    assert made == [("wheel-tag", "-C --build-option")] * refusals
