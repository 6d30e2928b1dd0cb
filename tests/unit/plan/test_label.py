"""What the local label says beside the hardware, and that pip and uv order and match it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from plan.planning import Planner, toolkit
from torchwheel.tree.cmake_options import TOP_FILE, Option
from torchwheel.tree.source_tree import Tree

FIVE = "fbgemm,kineto,numpy,openmp,xnnpack"


@pytest.mark.parametrize(
    ("config", "label"),
    [
        ({}, "cu130.sm120"),
        ({"profile": "debug"}, "cu130.sm120.debug"),
        ({"profile": "minimal"}, "cu130.sm120.minimal"),
        ({"profile": "minimal,debug"}, "cu130.sm120.minimal.debug"),
        ({"profile": "debug", "build-type": "Release"}, "cu130.sm120"),
        ({"build-type": "RelWithAssert"}, "cu130.sm120.relwithassert"),
        ({"profile": "minimal", "build-type": "RelWithDebInfo"}, "cu130.sm120.minimal.relwithdebinfo"),
        ({"disable": "distributed"}, "cu130.sm120.nodistributed"),
        ({"disable": "flash-attention,distributed"}, "cu130.sm120.nodistributed.noflashattention"),
        ({"define.USE_DISTRIBUTED": "OFF"}, "cu130.sm120.nodistributed"),
        # What goes with another component, what is so anyway, and what import torch does not show.
        ({"disable": "distributed,gloo,mpi"}, "cu130.sm120.nodistributed"),
        ({"enable": "openmp"}, "cu130.sm120"),
        ({"disable": "tests,ccache,precompiled-headers"}, "cu130.sm120"),
        ({"disable": "vulkan"}, "cu130.sm120"),
        ({"enable": "native-arch"}, "cu130.sm120.nativearch"),
        # Switches of no component.
        ({"define.USE_STATIC_MKL": "ON"}, "cu130.sm120.staticmkl"),
        ({"define.USE_STATIC_MKL": "OFF"}, "cu130.sm120"),
        ({"define.BUILD_SHARED_LIBS": "0"}, "cu130.sm120.nosharedlibs"),
        ({"profile": "minimal", "enable": "distributed"}, "cu130.sm120.minimal.distributed"),
        ({"profile": "minimal", "disable": "distributed,numpy"}, "cu130.sm120.minimal.nonumpy"),
        ({"disable": FIVE}, "cu130.sm120.custom550b09"),
        ({"disable": ",".join(reversed(FIVE.split(",")))}, "cu130.sm120.custom550b09"),
        ({"disable": "openmp,numpy,kineto"}, "cu130.sm120.nokineto.nonumpy.noopenmp"),
        ({"disable": "openmp", "local-version": "mine"}, "mine"),
        ({"target": "cpu", "disable": "cudnn,nccl"}, "cpu"),
        ({"target": "cpu", "profile": "debug"}, "cpu.debug"),
    ],
)
def test_what_makes_another_wheel_is_in_the_label(
    config: dict[str, str], label: str, modern_tree: Tree, plan: Planner
) -> None:
    made = plan({"target": "rtx5070", "package-version": "2.14.1", **config}, toolkits=[toolkit("13.0")])
    assert (made.version.local, made.version.base) == (label, "2.14.1")
    assert made.wheel_name == f"torch-2.14.1+{label}-cp311-cp311-linux_x86_64.whl"
    assert made.folders.root.name == (
        f"torch-{'cpu' if made.architectures is None else 'cu130.sm120'}-{made.fingerprint}"
    )


@pytest.mark.parametrize(
    ("name", "value", "label"),
    [
        ("ONNX_ML", "OFF", ".noonnxml"),
        ("USE_ASAN", "ON", ".asan"),
        ("USE_APPROX_BF16_GEMM", "ON", ".approxbf16gemm"),
        ("ATEN_NO_TEST", "ON", ""),
        ("STATIC_DISPATCH_BACKEND", "CPU", ".staticdispatchbackendcpu"),
        ("WERROR", "ON", ""),
        ("BLAS", "MKL", ""),
        ("ONNX_NAMESPACE", "onnx", ""),
        ("BLAS", "OpenBLAS", ".blasopenblas"),
        # A path of this machine is no part of a name.
        ("SELECTED_OP_LIST", "/home/me/ops.yaml", ".selectedoplist"),
    ],
)
def test_options_without_a_prefix_are_in_the_label(
    modern_tree: Tree, tmp_path: Path, name: str, value: str, label: str
) -> None:
    declared = {
        "ATEN_NO_TEST": ("BOOL", "OFF"),
        "BLAS": ("STRING", "MKL"),
        "USE_APPROX_BF16_GEMM": ("BOOL", "OFF"),
        "USE_ASAN": ("BOOL", "OFF"),
        "WERROR": ("BOOL", "OFF"),
        "ONNX_ML": ("BOOL", "ON"),
        "ONNX_NAMESPACE": ("STRING", "onnx_torch"),
        "SELECTED_OP_LIST": ("STRING", ""),
        "STATIC_DISPATCH_BACKEND": ("BOOL", "OFF"),
    }
    options = {
        key: Option(key, kind, "", default, "", TOP_FILE, 1) for key, (kind, default) in declared.items()
    }
    tree = replace(
        modern_tree,
        options={**modern_tree.options, **options},
        known_names=modern_tree.known_names | options.keys(),
    )
    made = Planner(tree, tmp_path, tmp_path / "cache")(
        {"target": "cpu", "package-version": "2", f"define.{name}": value}
    )
    assert made.version.local == f"cpu{label}"


def test_a_profile_that_changes_only_how_it_is_built_is_not_in_the_label(plan: Planner) -> None:
    overlays = plan.folder / "overlays"
    overlays.mkdir()
    profiles = {
        "quick": "jobs = 2\nenable = ['ccache']\nenv.CCACHE_DIR = '/ccache'\ndefine.NO_SUCH_OPTION = true\n",
        "My Größe_2": "env.CFLAGS = '-O3'\n",
        "7": "define.CMAKE_CXX_FLAGS = '-O3'\n",
    }
    for name, text in profiles.items():
        (overlays / f"{name}.toml").write_text(f"kind = 'profile'\n{text}", encoding="utf-8")
    made = plan({"target": "cpu", "package-version": "2.14.1", "profile": "quick,My Größe_2,7"})
    assert str(made.version) == "2.14.1+cpu.mygre2.profile7"
    assert str(made.version) == str(Version(str(made.version)))


def test_the_projects_own_target_table_is_as_good_as_its_other_settings(plan: Planner) -> None:
    table = "[tool.torchwheel.target.desk]\ninherits = 'cpu'\ndisable = ['distributed']\n"
    made = plan({"target": "desk", "package-version": "2.14.1"}, pyproject=table)
    assert str(made.version) == "2.14.1+cpu.nodistributed"


def test_a_changed_checkout_is_in_the_label(modern_tree: Tree, plan: Planner) -> None:
    tagged = replace(modern_tree, release_tag="v2.14.1", commit="1eba9b3" * 5 + "abcde", dirty=True)
    assert str(plan({"target": "cpu", "profile": "debug"}, tree=tagged).version) == "2.14.1+cpu.debug.dirty"
    branch = replace(tagged, release_tag=None)
    assert str(plan({"target": "cpu"}, tree=branch).version) == "2.14.1a0+git1eba9b3.cpu.dirty"
    assert str(plan({"target": "cpu", "local-version": ""}, tree=tagged).version) == "2.14.1"


LABELS = ("cu130.sm120", "cu130.sm120.debug", "cu130.sm120.minimal")


def test_labels_are_matched_exactly_and_the_longer_is_the_newer() -> None:
    versions = [Version(f"2.14.1+{label}") for label in LABELS]
    assert sorted(versions) == versions
    for version in versions:
        assert [v for v in versions if v in SpecifierSet(f"=={version}")] == [version]
        assert version in SpecifierSet("==2.14.1")
