"""What the wheel is called: the base version, the local label, and the trap of a pre-release."""

from __future__ import annotations

from dataclasses import replace

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from plan.planning import Planner, finding, ids, rendered, toolkit, variables
from said import said
from torchwheel.hardware.arch import parse_architectures
from torchwheel.plan.build_plan import WheelVersion
from torchwheel.plan.naming import hardware_label, wheel_version
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
