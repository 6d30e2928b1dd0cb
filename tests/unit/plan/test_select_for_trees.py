"""Which CUDA toolkit a plan takes, and what it says where none fits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plan.planning import LINUX, Planner, finding, ids, rendered, toolkit
from said import said
from torchwheel.host.machine import Host, described_host
from torchwheel.plan.build_plan import Plan
from torchwheel.plan.make import Inputs
from torchwheel.pytorch.releases import CudaSupport
from torchwheel.reporting.errors import Severity
from torchwheel.settings import Layer
from torchwheel.toolkit.cuda_toolkit import Toolkit
from torchwheel.toolkit.needs import TreeNeeds
from torchwheel.toolkit.select import Selection, select_toolkit
from torchwheel.tree.source_tree import Tree

RTX5070 = {"target": "rtx5070", "package-version": "2.14.1"}


def needs(inputs: Inputs) -> TreeNeeds:
    assert inputs.settings.arch is not None
    return TreeNeeds(inputs.settings, inputs.host, inputs.settings.arch.architectures, inputs.tree)


def selected(inputs: Inputs) -> Selection:
    return select_toolkit(needs(inputs), inputs.toolkits)


def errors(plan: Plan) -> list[str]:
    return rendered(plan.errors)


# --- named


LACKS = "toolkit-lacks-architecture"


def test_a_named_toolkit_is_taken(plan: Planner) -> None:
    named = toolkit("12.9", "/opt/cuda 12.9")
    inputs = plan.inputs({**RTX5070, "cuda-path": "/opt/cuda 12.9"}, named=named)
    assert selected(inputs) == Selection(named, Layer.CONFIG, "-C cuda-path")


@pytest.mark.parametrize(
    ("config", "version", "least", "found"),
    [
        ({"arch": "6.1;7.0;9.0", "cuda-path": "/opt/cuda-13.0"}, "2.14.1", "12.0", [LACKS, LACKS]),
        ({"target": "t4", "cuda-path": "/opt/cuda-11.8"}, "2.14.1", "12.0", ["toolkit-too-old"]),
        # A tree that does not say is judged by its release.
        ({"target": "t4", "cuda-path": "/opt/cuda-12.4"}, "2.14.1", "12.0", []),
        ({"target": "t4", "cuda-path": "/opt/cuda-12.4"}, "2.14.1", None, ["toolkit-too-old"]),
        ({"target": "t4", "cuda-path": "/opt/cuda-12.6"}, "2.2.0", "11.0", ["toolkit-too-new"]),
        ({"target": "rtx5070", "cuda-path": "/opt/cuda-12.4"}, "2.14.1", "12.0", [LACKS]),
        # What a GPU needs follows the architectures that are asked for.
        ({"target": "gb10", "arch": "12.0", "cuda-path": "/opt/cuda-12.8"}, "2.8.0", "12.0", []),
        ({"target": "t4", "cuda": "<12"}, "2.14.1", "12.0", ["no-release-fits"]),
        ({"arch": "12.0"}, "2.2.0", "11.0", ["tree-lacks-architecture", "no-release-fits"]),
        ({"arch": "5.0;11.0"}, "2.14.1", "12.0", ["no-release-compiles"]),
    ],
)
def test_toolkits_that_are_refused(
    plan: Planner,
    modern_tree: Tree,
    config: dict[str, str],
    version: str,
    least: str | None,
    found: list[str],
) -> None:
    made = plan(config, tree=replace(modern_tree, version_text=version, minimum_cuda=least))
    assert [one.id for one in made.errors] == found
    # A named one is not replaced by one that fits.
    assert (made.toolkit is not None) is ("cuda-path" in config)


@pytest.mark.parametrize("platform", ["macosx_14_0_arm64", "musllinux_1_2_x86_64"])
def test_no_release_for_the_platform(plan: Planner, platform: str) -> None:
    host = replace(described_host(platform, python_version="3.12.1"), here=True)
    assert ids(plan({"target": "t4", "package-version": "2.14.1"}, host=host)) == ["no-cuda-for-platform"]


def test_a_toolkit_without_a_compiler_is_refused(plan: Planner) -> None:
    runtime = toolkit("13.0", "/venv/nvidia/cu13", nvcc=None)
    refused = plan({**RTX5070, "cuda-path": "/venv/nvidia/cu13"}, named=runtime)
    assert errors(refused) == [said("error: toolkit-without-nvcc", "-C cuda-path", "/venv/nvidia/cu13")]


@pytest.mark.parametrize(
    ("config", "glibc", "alternative"),
    [
        ({"target": "h100"}, "2.36", "use CUDA 12.6: -C cuda=12.6"),
        # glibc 2.41 refuses the headers of 12.9 and before.
        ({"target": "h100"}, "2.41", "2.9 was the first with a CUDA that compiles for 9.0"),
        ({"target": "rtx5070"}, None, "2.7 was the first with a CUDA that compiles for 12.0"),
    ],
)
def test_a_toolkit_newer_than_the_release_knows_is_a_warning(
    legacy_plan: Planner, config: dict[str, str], glibc: str | None, alternative: str
) -> None:
    asked = {**config, "package-version": "2.6.0", "cuda-path": "/opt/cuda-12.9"}
    untried = legacy_plan(asked, host=replace(LINUX, glibc=glibc))
    assert rendered(untried.findings) == [
        said("warning: toolkit-untried", "-C cuda-path", "/opt/cuda-12.9", "12.6", alternative)
    ]


def test_an_architecture_newer_than_any_pytorch_was_built_for(plan: Planner) -> None:
    newest = plan({"arch": "10.7", "package-version": "2.14.1", "cuda-path": "/opt/cuda-13.4"})
    assert rendered(newest.findings) == [
        said(
            "warning: toolkit-untried",
            "-C cuda-path … /opt/cuda-13.4 … 2.14 … 13.2 … build for other architectures with -C arch=",
        )
    ]


# --- found


@pytest.mark.parametrize(
    ("settings", "newer_list"),
    [
        ({"arch": "8.7;10.1+PTX"}, "8.7;11.0+PTX"),
        ({"arch": "10.1a", "cuda-from": "pypi"}, "11.0a"),
        ({"arch": "10.1", "cuda-path": "/usr/local/cuda-13.0"}, "11.0"),
    ],
)
def test_the_newer_name_of_an_architecture_is_said(
    plan: Planner, here: Host, settings: dict[str, str], newer_list: str
) -> None:
    made = plan(settings, host=here, toolkits=[toolkit("13.0")])
    assert errors(made)
    assert finding(made, "architecture-renamed") == said(
        "note: architecture-renamed", "-C arch", "10.1", "11.0", "13.0", newer_list
    )


def test_a_name_that_the_toolkit_knows_is_not_replaced(plan: Planner, here: Host) -> None:
    made = plan({"arch": "10.1"}, host=here, toolkits=[toolkit("12.9")])
    assert "architecture-renamed" not in {finding.id for finding in made.findings}


def test_the_first_found_toolkit_that_serves_is_taken(plan: Planner, here: Host) -> None:
    found = [toolkit("12.4"), toolkit("13.0", origin="/usr/local/cuda-13.0"), toolkit("12.9")]
    inputs = plan.inputs(RTX5070, host=here, toolkits=found)
    assert selected(inputs) == Selection(found[1], Layer.DEFAULT, "found by /usr/local/cuda-13.0")


def test_the_range_decides_among_found_toolkits(plan: Planner, here: Host) -> None:
    found = [toolkit("13.0"), toolkit("12.9")]
    assert plan({**RTX5070, "cuda": "12.9"}, host=here, toolkits=found).toolkit == found[1]
    assert plan(RTX5070, host=here, toolkits=found).toolkit == found[0]


def test_a_toolkit_that_the_release_was_built_with_is_taken_before_a_newer_one(
    legacy_plan: Planner, here: Host
) -> None:
    found = [toolkit("12.9"), toolkit("12.6")]
    both = legacy_plan({"target": "h100", "package-version": "2.6.0"}, host=here, toolkits=found)
    assert (both.toolkit, ids(both)) == (found[1], [])
    alone = legacy_plan({"target": "h100", "package-version": "2.6.0"}, host=here, toolkits=found[:1])
    assert (alone.toolkit, ids(alone)) == (found[0], ["toolkit-untried"])


def test_a_toolkit_whose_nvcc_crashes_is_the_last_choice(legacy_plan: Planner) -> None:
    """nvcc 12.9 crashes on Windows on a source of PyTorch's: https://github.com/pytorch/pytorch/issues/156181"""
    windows = replace(described_host("win_amd64", python_version="3.12.1"), here=True)
    found = [toolkit("12.9"), toolkit("12.8")]
    asked = {**RTX5070, "package-version": "2.8.0"}
    assert legacy_plan(asked, host=windows, toolkits=found).toolkit == found[1]
    assert legacy_plan(asked, host=windows, toolkits=found[:1]).toolkit == found[0]
    linux = replace(windows, system="Linux", platform_tag="linux_x86_64")
    assert legacy_plan(asked, host=linux, toolkits=found).toolkit == found[0]
    assumed = legacy_plan({**asked, "cuda": ">=12.8,<13"}, host=replace(windows, here=False)).toolkit
    assert assumed is not None
    assert assumed.version == "12.8"


def test_windows_takes_the_cuda_13_of_official_builds_from_pypi(plan: Planner, modern_tree: Tree) -> None:
    windows = replace(described_host("win_amd64", python_version="3.12.1"), here=True)
    made = plan(RTX5070, tree=replace(modern_tree, version_text="2.14.1"), host=windows)
    assert made.toolkit is not None
    assert (made.toolkit.version, ids(made)) == ("13.0", ["toolkit-from-pypi"])


def test_without_a_toolkit_the_error_says_what_to_install(plan: Planner, here: Host) -> None:
    bare = plan({**RTX5070, "cuda-from": "system"}, host=here)
    assert errors(bare) == [
        said(
            "error: no-cuda-toolkit",
            "CUDA 12.8 to 13.5 …  for 12.0 … ; cuda-from is system, so PyPI's packages are not used … 13.0",
            "what PyTorch 2.14 is published with",
            "leave cuda-from out, to use PyPI's packages, or build without CUDA: -C target=cpu",
        )
    ]
    assert bare.wheel_name == "torch-2.14.1+cu130.sm120-cp311-cp311-linux_x86_64.whl"


def test_every_toolkit_that_was_refused_is_named(plan: Planner, here: Host) -> None:
    found = [toolkit("12.4"), toolkit("12.8", nvcc=None), toolkit("11.8")]
    (problem,) = (
        one.problem for one in plan({**RTX5070, "cuda-from": "system"}, host=here, toolkits=found).errors
    )
    assert problem.id == "no-cuda-toolkit"
    assert all(f"/usr/local/cuda-{version}" in problem.render() for version in ("12.4", "12.8", "11.8"))
    assert "cuda-toolkit-13-0" in problem.remedy
    assert "-C " not in problem.remedy.replace("-C target=cpu", "")


@pytest.mark.parametrize(
    ("wanted", "source", "id"), [("12.1", "system", "no-cuda-toolkit"), ("10.3", "auto", "toolkit-from-pypi")]
)
def test_code_that_the_installed_toolkit_compiles_is_a_remedy(
    plan: Planner, here: Host, wanted: str, source: str, id: str
) -> None:
    asked = {"arch": f"9.0;{wanted}", "package-version": "2.14.1", "cuda-from": source}
    text = finding(plan(asked, host=here, toolkits=[toolkit("12.8")]), id)
    assert f"({wanted})" in text and f"-C 'arch=9.0;{wanted[:-1]}0'" in text
    assert "-C cuda-" not in text


def test_a_cpu_build_asks_for_no_toolkit(plan: Planner, here: Host) -> None:
    cpu = plan({"target": "cpu", "package-version": "2.14.1"}, host=here, toolkits=[toolkit("13.0")])
    assert (cpu.toolkit, cpu.architectures, ids(cpu)) == (None, None, [])


# --- assumed

X86, ARM = "linux_x86_64", "linux_aarch64"


@pytest.mark.parametrize(
    ("version", "platform", "config", "cuda", "reason"),
    [
        # On Linux PyPI's own wheels decide; on Windows, where those have no CUDA, Linux's do.
        ("2.14.1", X86, {"target": "t4"}, "13.0", "what PyTorch 2.14 is published with"),
        ("2.14.1", ARM, {"target": "t4"}, "13.0", "what PyTorch 2.14 is published with"),
        ("2.14.1", "win_amd64", {"target": "t4"}, "13.0", "what PyTorch 2.14 is published with"),
        ("2.15.0", X86, {"target": "t4"}, "13.2", "what PyTorch 2.15 is published with"),
        ("2.8.0", X86, {"target": "rtx4090"}, "12.8", "what PyTorch 2.8 is published with"),
        # Out of the range, or without the architecture, it is the newest that the release takes.
        ("2.14.1", X86, {"target": "v100"}, "12.9", "newest that PyTorch 2.14 is known to take"),
        ("2.8.0", ARM, {"target": "gb10"}, "12.9", "newest that PyTorch 2.8 is known to take"),
        ("2.14.1", X86, {"target": "t4", "cuda": ">=13.1"}, "13.2", "in the range >=13.1 (-C cuda)"),
        # Where it takes none of them, the nearest.
        ("2.6.0", ARM, {"target": "gb10"}, "12.9", "nearest to what PyTorch 2.6 is known to take"),
        ("99.0", X86, {"target": "t4"}, "13.5", "the newest CUDA"),
        # No official build of 2.15 is for them.
        ("2.15.0", X86, {"target": "gtx1080ti"}, "12.6", "what PyTorch tests for GPUs before Turing"),
    ],
)
def test_the_release_that_is_assumed(
    plan: Planner,
    modern_tree: Tree,
    version: str,
    platform: str,
    config: dict[str, str],
    cuda: str,
    reason: str,
) -> None:
    tree = replace(modern_tree, version_text=version, minimum_cuda=None)
    foreign = plan(config, tree=tree, host=described_host(platform, python_version="3.12.1"))
    assert foreign.toolkit is not None
    assert foreign.toolkit.version == cuda
    assert finding(foreign, "toolkit-assumed") == said(
        "note: toolkit-assumed", cuda, foreign.toolkit.root, reason
    )


def test_a_foreign_plan_has_no_error_for_want_of_a_toolkit(plan: Planner) -> None:
    assert not LINUX.here
    assert [f.severity for f in plan(RTX5070).findings] == [Severity.NOTE]


# --- what is known of a CUDA release


@pytest.mark.parametrize(
    ("tree_version", "least", "cuda", "support"),
    [
        ("2.14.1", "12.0", "11.8", CudaSupport.TOO_OLD),
        ("2.14.1", "12.0", "12.4", CudaSupport.UNKNOWN),
        ("2.14.1", None, "12.4", CudaSupport.TOO_OLD),
        ("2.14.1", "12.0", "13.0.88", CudaSupport.ACCEPTED),
        ("2.14.1", "12.0", "13.4", CudaSupport.UNTRIED),
        ("2.2.0", "11.0", "12.6", CudaSupport.FAILS),
        ("99.0", "13.0", "12.9", CudaSupport.TOO_OLD),
        ("99.0", "13.0", "13.0", CudaSupport.UNKNOWN),
        ("unreadable", None, "13.0", CudaSupport.UNKNOWN),
    ],
)
def test_the_tree_s_own_word_counts_for_more_than_its_release(
    plan: Planner, modern_tree: Tree, tree_version: str, least: str | None, cuda: str, support: CudaSupport
) -> None:
    tree = replace(modern_tree, version_text=tree_version, minimum_cuda=least)
    inputs = plan.inputs({"target": "t4"}, tree=tree)
    assert needs(inputs).cuda_support(cuda) is support


# --- patch releases: nvcc counts otherwise (CUDA 12.9.1 has nvcc 12.9.86)


def patched(patch_release: str | None, version: str = "12.9", root: str = "") -> Toolkit:
    return replace(toolkit(version, root), patch_release=patch_release)


@pytest.mark.parametrize("cuda", ["12.9.1", ">=12.9.1", ">=12.8.1"])
def test_a_patch_release_that_is_asked_for_is_taken(plan: Planner, here: Host, cuda: str) -> None:
    found = [patched("12.9.0", root="/opt/older"), patched("12.9.1", root="/opt/cuda")]
    if cuda == ">=12.8.1":
        found[0] = patched("12.8.0", "12.8", "/opt/older")
    made = plan({**RTX5070, "cuda": cuda}, host=here, toolkits=found)
    assert (made.toolkit, ids(made)) == (found[1], [])


def test_another_patch_release_is_refused(plan: Planner) -> None:
    config = {**RTX5070, "cuda": "12.9.1", "cuda-path": "/opt/cuda"}
    refused = plan(config, named=patched("12.9.0", root="/opt/cuda"))
    assert errors(refused) == [
        said("error: toolkit-outside-range", "-C cuda-path", "/opt/cuda", "12.9.0", "==12.9.1")
    ]


def test_an_unknown_patch_release_is_none_that_was_asked_for(plan: Planner, here: Host) -> None:
    found = [patched(None, root="/usr"), patched("12.9.1", root="/opt/cuda")]
    config = {**RTX5070, "cuda": "12.9.1"}
    assert plan(config, host=here, toolkits=found).toolkit == found[1]
    refused = plan({**config, "cuda-path": "/usr"}, named=found[0])
    assert errors(refused) == [
        said("error: toolkit-outside-range", "-C cuda-path", "/usr", "12.9", "==12.9.1")
    ]
    assert ids(plan({**RTX5070, "cuda": "12.9"}, host=here, toolkits=found[:1])) == []


def test_a_patch_release_is_asked_of_pypi_too(plan: Planner, here: Host) -> None:
    made = plan({**RTX5070, "cuda": "13.0.1", "cuda-from": "pypi"}, host=here)
    (requirement,) = made.toolkit_requires
    assert requirement.endswith("]==13.0.*,==13.0.1")
    assert ids(made) == ["toolkit-from-pypi"]
