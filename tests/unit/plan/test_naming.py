"""What the wheel is called: base version, local label and pre-releases, and how pip and uv order labels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from plan.planning import Planner, finding, ids, rendered, toolkit, variables
from said import said
from torchwheel.hardware.arch import parse_architectures
from torchwheel.plan.build_plan import WheelVersion
from torchwheel.plan.naming import hardware_label, wheel_version
from torchwheel.tree.cmake_options import TOP_FILE, Option
from torchwheel.tree.source_tree import Tree

COMMIT = "1eba9b3a3c7c6d5fd60a6a9a3e8a5b4ab8a1f6ad"


@pytest.mark.parametrize(
    ("cuda", "architectures", "label"),
    [
        (None, None, "cpu"),
        ("13.0", None, "cu130"),
        ("13.0", "12.0", "cu130.sm120"),
        ("12.6", "7.5;8.0;8.6;9.0+PTX", "cu126.sm75.sm80.sm86.sm90.ptx90"),
        ("12.9", "12.0a;10.0f", "cu129.sm100f.sm120a"),
        ("11.8", "5.0", "cu118.sm50"),
        (None, "12.0", "sm120"),
    ],
)
def test_the_label_names_the_hardware(cuda: str | None, architectures: str | None, label: str) -> None:
    parsed = parse_architectures(architectures) if architectures else None
    assert hardware_label(cuda, parsed) == label


def test_a_release_tag_is_the_base(modern_tree: Tree) -> None:
    tagged = replace(modern_tree, release_tag="v2.14.1", commit=COMMIT)
    expected = WheelVersion("2.14.1", "cu130.sm120", "the tree's release tag")
    assert wheel_version(tagged, None, None, "cu130.sm120") == (expected, ())
    assert str(expected) == "2.14.1+cu130.sm120"


def test_what_is_asked_for_beats_the_release_tag(modern_tree: Tree) -> None:
    tagged = replace(modern_tree, release_tag="v2.14.1", commit=COMMIT)
    expected = WheelVersion("2.15.0a1", "cpu", "as requested")
    assert wheel_version(tagged, "2.15.0a1", None, "cpu") == (expected, ())


def test_a_local_version_replaces_the_label(plan: Planner) -> None:
    plain = plan({"target": "cpu", "package-version": "2.14.1", "local-version": "mine.7"})
    assert plain.wheel_name == "torch-2.14.1+mine.7-cp311-cp311-linux_x86_64.whl"
    assert ids(plain) == []


def test_version_txt_brings_the_commit_and_a_warning(modern_tree: Tree) -> None:
    development = replace(modern_tree, version_text="2.6.0a0", commit=COMMIT)
    version, findings = wheel_version(development, None, None, "cu126.sm90")
    assert version == WheelVersion("2.6.0a0", "git1eba9b3.cu126.sm90", "version.txt")
    assert rendered(findings) == [
        said("warning: prerelease-version", "2.6.0a0+git1eba9b3.cu126.sm90", "version.txt")
    ]
    # The warning's claim, checked with what pip uses.
    for specifier in ("==2.6.0", ">=2.6.0"):
        assert not SpecifierSet(specifier).contains(Version(str(version)), prereleases=True)


def test_version_txt_that_is_a_release_needs_no_warning(modern_tree: Tree) -> None:
    release = replace(modern_tree, version_text="2.6.0")
    assert wheel_version(release, None, None, "cpu") == (WheelVersion("2.6.0", "cpu", "version.txt"), ())


def test_where_git_cannot_say_the_commit_the_plan_says_so(modern_tree: Tree) -> None:
    silent = replace(modern_tree, version_text="2.6.0", commit_unknown="git is not installed")
    version, findings = wheel_version(silent, None, None, "cpu")
    assert version == WheelVersion("2.6.0", "cpu", "version.txt")
    assert rendered(findings) == [said("warning: commit-unknown", silent.root, "git is not installed")]
    assert wheel_version(silent, "2.6.0", None, "cpu")[1] == ()
    assert [
        finding.id for finding in wheel_version(replace(silent, commit=COMMIT), None, None, "cpu")[1]
    ] == ["commit-unknown"]


def test_a_version_that_pip_refuses_is_an_error(modern_tree: Tree) -> None:
    broken = replace(modern_tree, version_text="main")
    version, findings = wheel_version(broken, None, None, "cpu")
    assert str(version) == "main+cpu"
    assert rendered(findings) == [said("error: invalid-version", "main+cpu")]
    digits = replace(modern_tree, version_text="1" * 5_000)
    assert [one.id for one in wheel_version(digits, None, None, "cpu")[1]] == ["invalid-version"]


def test_every_hook_is_told_the_same_version(plan: Planner) -> None:
    many = plan(
        {"arch": "7.5;8.0;8.6;9.0+PTX", "package-version": "2.14.1", "cuda-path": "/opt/cuda-12.6"},
        named=toolkit("12.6", "/opt/cuda-12.6"),
    )
    name = "2.14.1+cu126.sm75.sm80.sm86.sm90.ptx90"
    assert many.wheel_name == f"torch-{name}-cp311-cp311-linux_x86_64.whl"
    told = {key: value for key, value in variables(many).items() if key.startswith("PYTORCH_BUILD_")}
    assert told == {"PYTORCH_BUILD_VERSION": name, "PYTORCH_BUILD_NUMBER": "1"}


def test_without_a_target_nothing_is_claimed_about_hardware(plan: Planner) -> None:
    assert plan({"package-version": "2.14.1"}).wheel_name == "torch-2.14.1-cp311-cp311-linux_x86_64.whl"


def test_a_variable_cannot_give_another_version_than_the_plan(plan: Planner) -> None:
    contrary = plan({"target": "cpu", "package-version": "2.14.1", "env.PYTORCH_BUILD_VERSION": "3.0"})
    assert variables(contrary)["PYTORCH_BUILD_VERSION"] == "2.14.1+cpu"
    assert finding(contrary, "variable-overruled") == said(
        "warning: variable-overruled", "-C env.PYTORCH_BUILD_VERSION", "2.14.1+cpu", "-C package-version=3.0"
    )


def test_a_build_tag_is_part_of_the_name(plan: Planner) -> None:
    made = plan({"target": "cpu", "package-version": "2.14.1", "skbuild.wheel.build-tag": "7a"})
    assert (made.wheel_name, made.errors) == ("torch-2.14.1+cpu-7a-cp311-cp311-linux_x86_64.whl", ())
    for tag in ("x7", "7-8"):
        (error,) = plan({"target": "cpu", "package-version": "2.14.1", "wheel.build-tag": tag}).errors
        assert error.render() == said("error: bad-build-tag", "-C wheel.build-tag", tag)


def test_a_name_that_no_file_can_have(plan: Planner) -> None:
    made = plan({"target": "cpu", "package-version": "2.14.1", "local-version": "a" * 230})
    (problem,) = (finding.problem for finding in made.errors)
    assert (problem.id, problem.what) == (
        "wheel-name-too-long",
        f"the wheel's name would be {len(made.wheel_name)} characters long: torch-2.14.1+{'a' * 47}…",
    )
    assert plan({"target": "cpu", "package-version": "2.14.1", "local-version": "a" * 150}).errors == ()


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
