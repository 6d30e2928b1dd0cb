"""Architectures that a tree cannot be told, and those that leave the target's own GPU out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from plan.planning import Planner, finding, ids, options, rendered, variables
from torchwheel._toml import read_toml
from torchwheel.plan import arch_list
from torchwheel.plan.arch_list import architecture_findings
from torchwheel.tree.model import Tree

RELEASE = {"version": "2.14.1"}


def test_the_data_file_names_a_source_for_each_suffix() -> None:
    table = read_toml(Path(arch_list.__file__).with_name("arch_list.toml"))["suffix"]
    assert {suffix: entry["since"] for suffix, entry in table.items()} == {"f": "2.9"}
    assert all(entry["source"].startswith("https://github.com/") for entry in table.values())


@pytest.mark.parametrize("version", ["2.6.0a0", "2.8.0", "2.0.1"])
def test_a_family_suffix_before_2_9_is_an_error(
    legacy_plan: Planner, legacy_tree: Tree, version: str
) -> None:
    tree = replace(legacy_tree, version_text=version)
    refused = legacy_plan({"arch": "9.0a;10.0f;12.0f+PTX"}, tree=tree)
    assert finding(refused, "tree-lacks-suffix") == (
        f"error: -C arch: PyTorch {version} does not take 10.0f, 12.0f in TORCH_CUDA_ARCH_LIST  [tree-lacks-suffix]\n"
        "    why: its CMake files know the suffix 'f' from PyTorch 2.9 on\n"
        "    fix: leave the suffix out: -C arch='9.0a;10.0;12.0+PTX'"
    )


@pytest.mark.parametrize("version", ["2.9.0", "2.14.1a0", "3.0.0", "unreadable"])
def test_a_family_suffix_is_fine_from_2_9_on(plan: Planner, modern_tree: Tree, version: str) -> None:
    inputs = plan.inputs({"arch": "12.0f"}, tree=replace(modern_tree, version_text=version))
    assert inputs.settings.arch is not None
    assert list(architecture_findings(inputs.settings, inputs.tree, inputs.settings.arch)) == []


def test_ptx_alone_is_an_error_not_an_exception(plan: Planner) -> None:
    refused = plan({"arch": "8.0;compute_90;ptx120", "cuda": "12.9"} | RELEASE)
    assert rendered(refused.errors) == [
        "error: -C arch: PyTorch cannot make PTX for 9.0 without machine code for it  [ptx-without-sass]\n"
        "    why: TORCH_CUDA_ARCH_LIST can add PTX to an architecture, not ask for it alone\n"
        "    fix: ask for '9.0+PTX', which makes both, or leave 'compute_90' out",
        "error: -C arch: PyTorch cannot make PTX for 12.0 without machine code for it  [ptx-without-sass]\n"
        "    why: TORCH_CUDA_ARCH_LIST can add PTX to an architecture, not ask for it alone\n"
        "    fix: ask for '12.0+PTX', which makes both, or leave 'compute_120' out",
    ]


def test_both_ways_to_the_arch_list_are_told_the_same(plan: Planner) -> None:
    mixed = plan({"arch": "sm_120, 8.0 9.0+PTX", "cuda": "12.9"} | RELEASE)
    assert options(mixed)["TORCH_CUDA_ARCH_LIST"] == "8.0;9.0+PTX;12.0"
    assert variables(mixed)["TORCH_CUDA_ARCH_LIST"] == "8.0;9.0+PTX;12.0"


def test_an_ambient_list_that_the_target_cannot_run(plan: Planner) -> None:
    project = '[tool.torchwheel]\ntarget = "rtx5070"\nversion = "2.14.1"\n'
    ambient = plan(pyproject=project, environment={"TORCH_CUDA_ARCH_LIST": "8.9"})
    assert options(ambient)["TORCH_CUDA_ARCH_LIST"] == "8.9"
    assert rendered(f for f in ambient.findings if f.severity.value == "warning") == [
        "warning: variables in the environment outrank what was asked for: arch is 8.9 (variable "
        "TORCH_CUDA_ARCH_LIST), not 12.0 (compute capability of rtx5070)  [ambient-decides]\n"
        "    why: the environment lies above overlays and pyproject.toml, and only -C above the environment\n"
        "    fix: unset them, or repeat with -C what you want",
    ]
    assert rendered(ambient.errors) == [
        "error: variable TORCH_CUDA_ARCH_LIST: the wheel will not run on GeForce RTX 5070, the target: it is "
        "compiled for 8.9  [target-cannot-run]\n"
        "    why: sm_89 does not run on 12.0: machine code is bound to its major revision\n"
        "    fix: unset TORCH_CUDA_ARCH_LIST, or ask for both: -C arch='8.9;12.0'",
    ]


def test_each_target_that_is_left_out_is_named(plan: Planner) -> None:
    narrow = plan({"target": "a100,t4,l4", "arch": "8.0"} | RELEASE)
    assert finding(narrow, "target-cannot-run") == (
        "error: -C arch: the wheel will not run on Tesla T4, the target: it is compiled for 8.0"
        "  [target-cannot-run]\n"
        "    why: sm_80 does not run on 7.5: machine code is bound to its major revision\n"
        "    fix: leave arch to the target, or ask for both: -C arch='7.5;8.0'"
    )


@pytest.mark.parametrize("arch", ["8.0", "8.9", "7.5+PTX", "8.0;12.0"])
def test_a_list_that_runs_on_the_target_needs_no_remark(plan: Planner, arch: str) -> None:
    assert "target-cannot-run" not in ids(plan({"target": "l4", "arch": arch, "cuda": "12.9"} | RELEASE))
