"""What makes a build directory of its own, and what does not: each part of the fingerprint changes it by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from plan.planning import GIB, LINUX, Planner, toolkit
from torchwheel.host.machine import Compiler, Host
from torchwheel.plan.make import Inputs, make_plan
from torchwheel.toolkit.select import Candidates
from torchwheel.tree.source_tree import Generation, Tree

H100 = {"target": "h100", "package-version": "2.14.1"}
GCC = Compiler("cxx", "gcc", "/usr/bin/g++-12", "12", "12.2.0:1")


def changed_host(**changes: object) -> Host:
    return replace(LINUX, **changes)  # type: ignore[arg-type]


def test_it_is_twelve_hexadecimal_digits_and_always_the_same(plan: Planner) -> None:
    first = plan(H100).fingerprint
    assert (len(first), int(first, 16) >= 0) == (12, True)
    assert plan(H100).fingerprint == first


@pytest.mark.parametrize(
    "other",
    [
        {"target": "a100"},
        {"arch": "9.0+PTX"},
        {"cuda": "12.9"},
        {"define.USE_NCCL": "OFF"},
        {"disable": "kineto"},
        {"profile": "minimal"},
        {"build-type": "Debug"},
        {"env.CXXFLAGS": "-O1"},
        {"env.CC": "clang"},
        {"cmake.args": "--toolchain=x"},
        {"cmake.toolchain-file": "x.cmake"},
        {"env.CCACHE_COMPILER": "/usr/bin/clang++"},
    ],
)
def test_what_changes_it(plan: Planner, other: dict[str, str]) -> None:
    assert plan(H100 | other).fingerprint != plan(H100).fingerprint


@pytest.mark.parametrize(
    "other",
    [
        {"package-version": "2.15.0"},
        {"local-version": "mine"},
        {"jobs": "3"},
        {"env.CCACHE_DIR": "/elsewhere"},
        {"env.CCACHE_COMPILERCHECK": "content"},
        {"env.SCCACHE_BUCKET": "b"},
        {"env.LD_LIBRARY_PATH": "/lib"},
        {"env.FLASH_ATTENTION_MAX_JOBS": "1"},
        {"define.FLASH_ATTENTION_MAX_JOBS": "1"},
        {"skip-check": "toolkit-untried"},
        {"wheel.build-tag": "7"},
        {"build-dir": "/elsewhere"},
        {"traceback": "true"},
    ],
)
def test_what_does_not(plan: Planner, other: dict[str, str]) -> None:
    assert plan(H100 | other).fingerprint == plan(H100).fingerprint


def test_who_asked_does_not_matter(plan: Planner) -> None:
    by_project = plan(
        pyproject='[tool.torchwheel]\ntarget = "h100"\npackage-version = "2.14.1"\ndisable = ["nccl"]\n'
    )
    by_variable = plan(H100, environment={"USE_NCCL": "OFF"})
    assert plan(H100 | {"disable": "nccl"}).fingerprint == by_project.fingerprint == by_variable.fingerprint


CHANGES: dict[str, Callable[[Inputs], Inputs]] = {
    "the tree's place": lambda i: replace(i, tree=replace(i.tree, identity="0123456789abcdef")),
    "the tree's generation": lambda i: replace(i, tree=replace(i.tree, generation=Generation.SETUP_PY)),
    "a compiler": lambda i: replace(i, host=changed_host(compilers=(GCC,))),
    "the compiler's identity": lambda i: replace(
        i, host=changed_host(compilers=(replace(GCC, identity="12.3.0:2"),))
    ),
    "nvcc": lambda i: replace(i, toolkits=Candidates(replace(toolkit("13.0"), identity="nvcc 13.0 rebuilt"))),
    "the toolkit's place": lambda i: replace(i, toolkits=Candidates(toolkit("13.0", "/opt/cuda"))),
    "Python's ABI": lambda i: replace(i, host=changed_host(python=replace(LINUX.python, abi_tag="cp311t"))),
    "Python's place": lambda i: replace(i, python_executable="/venv/bin/python"),
    "the Python that environments are made of": lambda i: replace(i, python_identity="/opt/python"),
    "Python's version": lambda i: replace(
        i, host=changed_host(python=replace(LINUX.python, interpreter_tag="cp312"))
    ),
    "the place of the sources": lambda i: replace(i, in_place=True),
    "the platform": lambda i: replace(i, host=changed_host(platform_tag="linux_aarch64")),
}
NO_CHANGES: dict[str, Callable[[Inputs], Inputs]] = {
    "a commit": lambda i: replace(i, tree=replace(i.tree, commit="0" * 40)),
    "a tag": lambda i: replace(i, tree=replace(i.tree, release_tag="v2.14.1")),
    "memory and cores": lambda i: replace(i, host=changed_host(memory_bytes=8 * GIB, cores=2)),
    "the cache's place": lambda i: replace(i, cache=i.cache / "elsewhere"),
    "Python's patch release": lambda i: replace(
        i, host=changed_host(python=replace(LINUX.python, version="3.11.9"))
    ),
}


def _with_toolkit(plan: Planner) -> Inputs:
    config = {"target": "h100", "cuda-path": "/usr/local/cuda-13.0"}
    return plan.inputs(config, named=toolkit("13.0"))


def test_where_torchwheel_chooses_the_environment_its_place_does_not_matter(plan: Planner) -> None:
    kept = replace(_with_toolkit(plan), python_identity="/usr")
    current = replace(kept, python_executable="/venv/bin/python", environment=None)
    assert make_plan(kept).fingerprint == make_plan(current).fingerprint
    by_hand = plan.inputs({"target": "cpu", "define.Python_EXECUTABLE": "/mine/python"})
    other = plan.inputs({"target": "cpu", "define.Python_EXECUTABLE": "/other/python"})
    assert make_plan(by_hand).fingerprint != make_plan(other).fingerprint


@pytest.mark.parametrize("what", CHANGES)
def test_what_changes_it_beside_the_settings(plan: Planner, what: str) -> None:
    inputs = _with_toolkit(plan)
    assert make_plan(CHANGES[what](inputs)).fingerprint != make_plan(inputs).fingerprint


@pytest.mark.parametrize("what", NO_CHANGES)
def test_what_does_not_beside_the_settings(plan: Planner, what: str) -> None:
    inputs = _with_toolkit(plan)
    assert make_plan(NO_CHANGES[what](inputs)).fingerprint == make_plan(inputs).fingerprint


def test_a_new_commit_builds_on_in_the_same_folder(plan: Planner, modern_tree: Tree) -> None:
    """version.txt brings the commit into the version; it must not bring it into the folder's name."""
    before, after = (plan({"target": "cpu"}, tree=replace(modern_tree, commit=digit * 40)) for digit in "01")
    assert before.wheel_name != after.wheel_name
    assert before.folders == after.folders
