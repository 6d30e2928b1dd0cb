"""The CMake options of a plan, and what it says about those that the tree does not know."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plan.planning import LINUX, Planner, finding, ids, options, variables
from torchwheel.host.machine import described_host
from torchwheel.plan.build_plan import Define
from torchwheel.settings import Layer
from torchwheel.tree.source_tree import Tree

CPU = {"target": "cpu", "package-version": "2.14.1"}
CPU_OPTIONS = {
    "CMAKE_BUILD_TYPE": "Release",
    "Python_EXECUTABLE": "/usr/bin/python3",
    "USE_CUDA": "OFF",
    "USE_CUDNN": "OFF",
    "USE_MPS": "OFF",
    "USE_ROCM": "OFF",
    "USE_XPU": "OFF",
}


def test_the_whole_list_of_a_plain_cpu_build(plan: Planner) -> None:
    assert options(plan(CPU)) == CPU_OPTIONS


def test_each_option_knows_its_layer_its_origin_and_what_it_replaced(plan: Planner) -> None:
    project = '[tool.torchwheel]\ntarget = "cpu"\npackage-version = "2.14.1"\ndisable="kineto"\ndefine.WERROR = true\n'
    both = plan({"enable": "kineto"}, pyproject=project)
    kineto, werror = (d for d in both.defines if d.name in ("USE_KINETO", "WERROR"))
    assert kineto == Define("USE_KINETO", "ON", Layer.CONFIG, "-C enable", kineto.replaced)
    assert [(s.text, s.layer, s.origin) for s in kineto.replaced] == [
        ("false", Layer.PROJECT, "pyproject.toml [tool.torchwheel]")
    ]
    assert werror == Define("WERROR", "ON", Layer.PROJECT, "pyproject.toml [tool.torchwheel]")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (True, "ON"),
        (False, "OFF"),
        ("1", "1"),
        ("8.0;9.0+PTX", "8.0;9.0+PTX"),
        ('say "hello"', 'say "hello"'),
        ("Grüße 你好", "Grüße 你好"),
        ("", ""),
    ],
)
def test_values_stay_as_they_are_given(plan: Planner, given: bool | str, text: str) -> None:
    assert options(plan({**CPU, "define.BLAS": given}))["BLAS"] == text


def test_a_user_may_name_the_interpreter(plan: Planner) -> None:
    own = plan({**CPU, "define.Python_EXECUTABLE": "/opt/python"})
    assert options(own)["Python_EXECUTABLE"] == "/opt/python"
    assert own.inner_config_settings["cmake.define.Python_EXECUTABLE"] == "/opt/python"


# --- options that the tree does not know


def test_unknown_options_are_named_with_what_was_meant(plan: Planner) -> None:
    odd = plan(
        {
            **CPU,
            "define.USE_NCLL": "0",
            "define.BUILD_NVFUSER": "0",
            "define.USE_QUITE_SOMETHING_ELSE": "1",
            "define.CMAKE_VERBOSE_MAKEFILE": "1",
            "define.BUILD_TESTING": "0",
        }
    )
    assert ids(odd) == ["unknown-options"]
    said = finding(odd, "unknown-options")
    assert all(
        name in said for name in ("BUILD_NVFUSER", "did you mean USE_NCCL?", "USE_QUITE_SOMETHING_ELSE")
    )
    assert "CMAKE_VERBOSE_MAKEFILE" not in said
    assert options(odd) == CPU_OPTIONS | {
        "USE_NCLL": "0",
        "BUILD_NVFUSER": "0",
        "USE_QUITE_SOMETHING_ELSE": "1",
        "CMAKE_VERBOSE_MAKEFILE": "1",
        "BUILD_TESTING": "0",
    }


def test_an_option_of_newer_releases_is_told_as_such(legacy_plan: Planner, legacy_tree: Tree) -> None:
    older = replace(legacy_tree, known_names=legacy_tree.known_names - {"USE_FBGEMM_GENAI"})
    newer = legacy_plan({"target": "h100", "define.USE_FBGEMM_GENAI": "1"}, tree=older)
    assert "USE_FBGEMM_GENAI (-C define.USE_FBGEMM_GENAI), which PyTorch has from 2.10 on  [" in finding(
        newer, "unknown-options"
    )


@pytest.mark.parametrize("own", ["USE_MSLK", "USE_FBGEMM_GENAI"])
def test_of_a_component_s_alternatives_the_tree_s_own_is_set(
    plan: Planner, modern_tree: Tree, own: str
) -> None:
    both = {"USE_MSLK", "USE_FBGEMM_GENAI"}
    tree = replace(
        modern_tree,
        known_names=modern_tree.known_names - both | {own},
        options={own: modern_tree.options["USE_FBGEMM_GENAI"]},
    )
    made = plan({"target": "h100", "disable": "mslk"}, tree=tree)
    assert {name: value for name, value in options(made).items() if name in both} == {own: "OFF"}
    assert "unknown-options" not in ids(made)
    assert made.version.local.endswith({"USE_MSLK": ".nomslk", "USE_FBGEMM_GENAI": ".nofbgemmgenai"}[own])


@pytest.mark.parametrize(("version", "found"), [("2.13.0", False), ("2.14.0a0", True), ("2.15.0", True)])
def test_what_is_always_built_once_it_has_no_option_cannot_be_left_out_in_silence(
    plan: Planner, modern_tree: Tree, version: str, found: bool
) -> None:
    tree = replace(
        modern_tree, version_text=version, known_names=modern_tree.known_names - {"BUILD_FUNCTORCH"}
    )
    assert ("unknown-options" in ids(plan({**CPU, "disable": "functorch"}, tree=tree))) is found


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("BUILD_LIBTORCH_WHL", "1"),
        ("BUILD_PYTHON_ONLY", "ON"),
        ("BUILD_LIBTORCHLESS", "ON"),
        ("BUILD_PYTHON", "OFF"),
        ("USE_NIGHTLY", "2.15.0.dev20261101"),
    ],
)
def test_a_part_of_pytorch_is_not_built_under_the_whole_one_s_name(
    plan: Planner, legacy_plan: Planner, option: str, value: str
) -> None:
    for planner in (plan, legacy_plan):
        asked = {**CPU, f"define.{option}": value}
        assert [one.id for one in planner(asked).errors] == ["partial-build"]
        other = "ON" if value == "OFF" else "OFF"
        assert planner({**CPU, f"define.{option}": other}).errors == ()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("USE_NNAPI", "USE_NNAPI (-C define.USE_NNAPI), which PyTorch had until 2.13"),
        ("USE_LMDB", "USE_LMDB (-C define.USE_LMDB), which PyTorch dropped by 2.6"),
        # A release between the two that have it: nothing is known of why this tree does not.
        ("USE_CUSPARSELT", "USE_CUSPARSELT (-C define.USE_CUSPARSELT)"),
        # In build scripts that go round: what it was meant to switch was dropped, and is nothing like USE_CCACHE.
        (
            "USE_CAFFE2",
            "USE_CAFFE2 (-C define.USE_CAFFE2), which no PyTorch is known to have; BUILD_CAFFE2 is one that PyTorch "
            "had until 2.3",
        ),
        ("CAFFE2_USE_PTHREADPOL", "CAFFE2_USE_PTHREADPOL (-C define.CAFFE2_USE_PTHREADPOL)"),
    ],
)
def test_an_option_that_was_dropped_is_told_as_such(
    plan: Planner, modern_tree: Tree, name: str, said: str
) -> None:
    known = modern_tree.known_names - {name}
    found = plan({**CPU, f"define.{name}": "0"}, tree=replace(modern_tree, known_names=known))
    assert f"do not mention: {said}  [" in finding(found, "unknown-options")


def test_the_other_option_of_a_component_is_meant_where_the_tree_has_it(
    plan: Planner, legacy_plan: Planner, legacy_tree: Tree
) -> None:
    with_caffe2 = replace(legacy_tree, options={**legacy_tree.options, "BUILD_CAFFE2": "OFF"})
    found = legacy_plan({"target": "cpu", "define.USE_CAFFE2": "0"}, tree=with_caffe2)
    assert "USE_CAFFE2 (-C define.USE_CAFFE2), did you mean BUILD_CAFFE2?  [" in finding(
        found, "unknown-options"
    )


def test_disabling_a_component_that_the_tree_lacks_needs_no_remark(plan: Planner, modern_tree: Tree) -> None:
    without = replace(modern_tree, known_names=modern_tree.known_names - {"USE_KINETO"})
    assert ids(plan({**CPU, "disable": "kineto"}, tree=without)) == []
    assert ids(plan({**CPU, "enable": "kineto"}, tree=without)) == ["unknown-options"]


def test_what_a_built_in_overlay_says_for_other_releases_needs_no_remark(
    plan: Planner, modern_tree: Tree
) -> None:
    windows = described_host("win_amd64", python_version="3.12.1")
    made = plan({"target": "rtx5070"}, tree=modern_tree, host=windows)
    assert "USE_SYSTEM_PTHREADPOOL" not in modern_tree.known_names
    assert options(made)["USE_SYSTEM_PTHREADPOOL"] == "OFF"
    assert "unknown-options" not in ids(made)


# --- the pool for flash attention's kernels


def test_the_pool_is_given_as_option_and_variable(plan: Planner) -> None:
    pooled = plan({"target": "h100", "package-version": "2.14.1"})
    assert pooled.jobs.flash_attention == 5
    assert (options(pooled)["FLASH_ATTENTION_MAX_JOBS"], variables(pooled)["FLASH_ATTENTION_MAX_JOBS"]) == (
        "5",
        "5",
    )
    (define,) = (d for d in pooled.defines if d.name == "FLASH_ATTENTION_MAX_JOBS")
    assert not define.expected, "an older CMake cache may hold another depth"


def test_the_pool_s_depth_may_be_asked_for(plan: Planner) -> None:
    environment = {"FLASH_ATTENTION_MAX_JOBS": "1"}
    asked = plan({"target": "h100", "package-version": "2.14.1"}, environment=environment)
    assert (options(asked)["FLASH_ATTENTION_MAX_JOBS"], variables(asked)["FLASH_ATTENTION_MAX_JOBS"]) == (
        "1",
        "1",
    )


@pytest.mark.parametrize("config", [{"disable": "flash-attention"}, {"define.USE_FLASH_ATTENTION": "OFF"}])
def test_no_pool_without_the_kernels(plan: Planner, config: dict[str, str]) -> None:
    without = plan({"target": "h100", "package-version": "2.14.1", **config})
    assert without.jobs.flash_attention is None
    assert "FLASH_ATTENTION_MAX_JOBS" not in {**options(without), **variables(without)}


def test_a_tree_without_the_pool_counts_every_job_as_a_kernel(legacy_plan: Planner) -> None:
    request = {"target": "h100", "package-version": "2.6.0", "cuda": "12.6"}
    assert legacy_plan(request, host=replace(LINUX, system="Darwin")).jobs.max_jobs == 11
    old = legacy_plan(request)
    assert (old.jobs.cxx, old.jobs.cuda) == (16, 16)
    assert "FLASH_ATTENTION_MAX_JOBS" not in {**options(old), **variables(old)}
