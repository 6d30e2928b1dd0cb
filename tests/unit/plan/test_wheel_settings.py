"""What scikit-build-core is told of the wheel, and what would be found out of it after the compile."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from plan.planning import LINUX, Planner
from said import said
from torchwheel.host.described import described_host
from torchwheel.host.machine import Host

CPU = {"target": "cpu", "package-version": "2.14.1"}
FREE_THREADED = described_host("linux_x86_64", python_version="3.14.1")
FREE_THREADED = replace(FREE_THREADED, python=replace(FREE_THREADED.python, abi_tag="cp314t"))
PURE = "the Python tag py3 instead of cp311, the ABI tag none instead of cp311"


def rendered(plan: Planner, config: dict[str, Any], **keywords: Any) -> list[str]:
    return [finding.render() for finding in plan({**CPU, **config}, **keywords).errors]


def tag_error(origin: str, has: str) -> str:
    return said("error: wheel-tag", origin, has, "leave it out")


@pytest.mark.parametrize(
    ("key", "value", "has"),
    [
        ("wheel.tags", "py3-none-any", f"{PURE}, the platform tag any instead of linux_x86_64"),
        (
            "skbuild.wheel.tags",
            "cp311-cp311-linux_x86_64;cp312-cp311-linux_x86_64",
            "the Python tag cp311.cp312 instead of cp311",
        ),
        (
            "wheel.tags",
            ["cp311-cp311-manylinux_2_28_x86_64"],
            "the platform tag manylinux_2_28_x86_64 instead of linux_x86_64",
        ),
        ("wheel.py-api", "py2.py3", PURE.replace("py3", "py2.py3")),
        ("wheel.py-api", "cp310", "the Python tag cp310 instead of cp311, the ABI tag abi3 instead of cp311"),
        ("wheel.platlib", "false", f"{PURE}, the platform tag any instead of linux_x86_64"),
        ("wheel.platlib", False, f"{PURE}, the platform tag any instead of linux_x86_64"),
    ],
)
def test_tags_that_are_not_planned(plan: Planner, key: str, value: Any, has: str) -> None:
    assert rendered(plan, {key: value}) == [tag_error(f"-C {key}", has)]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ("--build-number=7", "--build-number=7"),
        (["--build-num", "7", "--compression=stored"], "--build-num 7"),
        (
            "-v --plat-name linux_aarch64 --py-limited-api=cp39",
            "--plat-name linux_aarch64 --py-limited-api=cp39",
        ),
    ],
)
def test_options_of_bdist_wheel_that_name_another_wheel(
    legacy_plan: Planner, options: Any, names: str
) -> None:
    made = rendered(legacy_plan, {"--build-option": options})
    assert made == [tag_error("-C --build-option", f"another name, by {names}")]


def test_other_options_of_bdist_wheel(legacy_plan: Planner) -> None:
    assert rendered(legacy_plan, {"--build-option": "--verbose --compression=deflated --keep-temp"}) == []


@pytest.mark.parametrize(
    ("config", "host"),
    [
        ({"wheel.tags": "cp311-cp311-linux_x86_64"}, LINUX),
        # It names the tags whatever else is said.
        ({"wheel.tags": "cp311-cp311-linux_x86_64", "wheel.py-api": "py3", "wheel.platlib": "0"}, LINUX),
        # scikit-build-core stops at what is no tag before it runs CMake, and passes over what is not of this Python.
        ({"wheel.tags": "cp311"}, LINUX),
        ({"wheel.tags": "", "wheel.py-api": "", "wheel.platlib": "true"}, LINUX),
        ({"wheel.py-api": "cp312"}, LINUX),
        ({"wheel.py-api": "cp310t"}, LINUX),
        ({"wheel.py-api": "cp310"}, FREE_THREADED),
    ],
)
def test_tags_that_are(plan: Planner, config: dict[str, Any], host: Host) -> None:
    assert rendered(plan, config, host=host) == []


def test_the_stable_abi_without_the_lock(plan: Planner) -> None:
    has = "the Python tag cp314 instead of cp314t, the ABI tag abi3t instead of cp314t"
    python = replace(FREE_THREADED.python, interpreter_tag="cp314t")
    made = rendered(plan, {"wheel.py-api": "cp313.cp314t"}, host=replace(FREE_THREADED, python=python))
    assert made == [tag_error("-C wheel.py-api", has)]


def test_what_the_tree_itself_says(plan: Planner) -> None:
    table = '[tool.scikit-build]\nwheel.py-api = "py3"\nwheel.install-dir = "torch"\n'
    assert rendered(plan, {}, pyproject=table) == [tag_error("pyproject.toml [tool.scikit-build]", PURE)]
    assert rendered(plan, {"wheel.py-api": "", "wheel.install-dir": "torch"}, pyproject=table) == []


def test_another_folder_than_the_trees(plan: Planner) -> None:
    assert rendered(plan, {"wheel.install-dir": "elsewhere"}) == [
        said("error: wheel-empty", "-C wheel.install-dir", "elsewhere", "torch")
    ]


def test_who_skips_the_proof_skips_this(plan: Planner) -> None:
    """A wheel that is tagged for older systems, say, by somebody who knows that it runs there."""
    told = {"wheel.tags": "cp311-cp311-manylinux_2_28_x86_64", "skip-check": "wheel-tag"}
    assert [(one.id, one.head(("wheel-tag",))) for one in plan({**CPU, **told}).findings] == [
        ("wheel-tag", "error (skipped by skip-check): ")
    ]


def test_setup_py_is_told_nothing_of_that(legacy_plan: Planner) -> None:
    table = '[tool.scikit-build]\nwheel.py-api = "py3"\n'
    assert rendered(legacy_plan, {}, pyproject=table) == []
