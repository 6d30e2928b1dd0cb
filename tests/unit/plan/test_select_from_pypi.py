"""A CUDA toolkit made of PyPI's packages, in a plan."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from plan.planning import LINUX, Planner, finding, ids, options, toolkit, variables
from said import said
from torchwheel.host.machine import Host, described_host
from torchwheel.plan.build_plan import Plan
from torchwheel.reporting.errors import Severity
from torchwheel.toolkit.pypi import PackagedToolkit, requirements_for
from torchwheel.tree.source_tree import Tree

ASKED = {"target": "rtx5070", "package-version": "2.14.1"}
PYPI = {**ASKED, "cuda-from": "pypi"}
REQUIRED = requirements_for("13.0")
INSTALLED = ("cuda-toolkit==13.0.3.0", "nvidia-cuda-nvcc==13.0.88")


def packaged(version: str) -> PackagedToolkit:
    made = toolkit(
        version, f"/cache/toolkits/cuda-{version}-1a2b3c4d5e6f", origin=f"packages in /env/{version}"
    )
    return PackagedToolkit(made, Path(f"/env/{version}"), INSTALLED)


def with_packages(plan: Planner, config: dict[str, str], *versions: str, **more: object) -> Plan:
    return plan(config, packaged=[packaged(version) for version in versions], **more)


def test_before_anything_is_installed_the_plan_says_what_will_be(plan: Planner, here: Host) -> None:
    made = plan(PYPI, host=here, toolkits=[toolkit("13.0")])
    root = plan.cache / "toolkits" / "cuda-13.0"
    assert made.toolkit is not None
    assert (made.toolkit.root, made.toolkit.version, made.toolkit.origin) == (str(root), "13.0", "PyPI")
    assert (made.toolkit_requires, made.toolkit_packages) == (REQUIRED, None)
    assert made.wheel_name == "torch-2.14.1+cu130.sm120-cp311-cp311-linux_x86_64.whl"
    assert options(made)["CMAKE_CUDA_COMPILER"] == str(root / "bin" / "nvcc")
    assert variables(made)["CUDA_HOME"] == str(root)
    assert variables(made)["LD_LIBRARY_PATH"] == f"{root / 'lib64'}:+"
    assert finding(made, "toolkit-from-pypi") == said(
        "note: toolkit-from-pypi",
        "13.0",
        "it is what PyTorch 2.14 is published with; NVIDIA's packages are installed for the build, in "
        f"{plan.cache / 'toolkits'}",
    )
    assert made.errors == ()


def test_installed_packages_are_taken_with_their_place(plan: Planner, here: Host) -> None:
    made = with_packages(plan, PYPI, "13.4", "13.0", host=here)
    assert made.toolkit == packaged("13.0").toolkit
    assert (made.toolkit_requires, made.toolkit_packages) == (INSTALLED, Path("/env/13.0"))
    assert options(made)["CUDAToolkit_ROOT"] == "/cache/toolkits/cuda-13.0-1a2b3c4d5e6f"
    assert finding(made, "toolkit-from-pypi").endswith("why: it is made of the packages in /env/13.0")
    assert ids(made) == ["toolkit-from-pypi"]


def test_an_installed_toolkit_that_serves_comes_before_packages(plan: Planner, here: Host) -> None:
    made = with_packages(plan, ASKED, "13.0", host=here, toolkits=[toolkit("12.8")])
    assert (made.toolkit, made.toolkit_requires, ids(made)) == (toolkit("12.8"), (), [])


@pytest.mark.parametrize("found", [[], [toolkit("12.4"), toolkit("13.0", nvcc=None)]])
def test_where_no_installed_toolkit_serves_packages_do(
    plan: Planner, here: Host, found: list[object]
) -> None:
    made = plan(ASKED, host=here, toolkits=found)
    assert (made.toolkit_requires, ids(made)) == (REQUIRED, ["toolkit-from-pypi"])


def test_system_keeps_away_from_pypi(plan: Planner, here: Host) -> None:
    made = with_packages(plan, {**ASKED, "cuda-from": "system"}, "13.0", host=here)
    assert (made.toolkit_requires, ids(made)) == ((), ["no-cuda-toolkit"])


def test_the_range_of_cuda_versions_counts(plan: Planner, here: Host) -> None:
    made = plan({**PYPI, "cuda": "13.2"}, host=here)
    assert made.toolkit_requires == requirements_for("13.2")
    refused = plan({**PYPI, "cuda": "12.9"}, host=here)
    assert [f.render() for f in refused.findings if f.severity is Severity.ERROR] == [
        said(
            "error: no-toolkit-on-pypi",
            "-C cuda-from … CUDA 13.0 to 13.5 … linux_x86_64",
            "CUDA 12.9 can be used for 12.0 and PyTorch 2.14.1a0",
        )
    ]


def test_what_a_release_was_never_tried_with_is_taken_only_when_asked_for(
    legacy_plan: Planner, legacy_tree: Tree, here: Host
) -> None:
    config = {"target": "h100", "package-version": "2.9.0", "cuda": ">=13.1"}
    tree = replace(legacy_tree, version_text="2.9.0")
    alone = legacy_plan(config, tree=tree, host=here)
    assert ids(alone) == ["no-cuda-toolkit"]
    assert "PyPI has CUDA 13.1 to 13.5" in finding(alone, "no-cuda-toolkit")
    assert "-C cuda-from=pypi" in finding(alone, "no-cuda-toolkit")
    asked = legacy_plan({**config, "cuda-from": "pypi"}, tree=tree, host=here)
    assert ids(asked) == ["toolkit-untried", "toolkit-from-pypi"]


def test_what_is_known_to_fail_is_not_taken_from_pypi(legacy_plan: Planner, here: Host) -> None:
    """PyPI's nvcc begins with 13.0, and PyTorch 2.6 does not compile with it."""
    asked = legacy_plan({"target": "h100", "package-version": "2.6.0", "cuda-from": "pypi"}, host=here)
    assert (asked.toolkit_requires, ids(asked)) == ((), ["no-toolkit-on-pypi"])


def test_for_another_machine_packages_come_only_when_asked_for(plan: Planner) -> None:
    assert ids(plan(ASKED, host=LINUX)) == ["toolkit-assumed"]
    assert ids(plan(PYPI, host=LINUX)) == ["toolkit-from-pypi"]
    power = described_host("linux_ppc64le", python_version="3.11.7")
    assert "no-toolkit-on-pypi" in ids(
        plan({"arch": "8.0", "cuda-from": "pypi", "package-version": "2.14.1"}, host=power)
    )


def test_packages_that_cannot_serve_are_named(plan: Planner, here: Host) -> None:
    made = with_packages(plan, {**PYPI, "cuda": "12.9"}, "13.0", host=here)
    refused = "the CUDA toolkit in /cache/toolkits/cuda-13.0-1a2b3c4d5e6f is 13.0, outside ==12.9.* (-C cuda)"
    assert refused in finding(made, "no-toolkit-on-pypi")
