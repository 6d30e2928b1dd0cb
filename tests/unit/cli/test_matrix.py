"""``torchwheel matrix`` as it is typed; the jobs themselves are in fleet/."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.running import Run
from places import MINITORCH, REPOSITORY

KERNEL = REPOSITORY / "examples" / "stable_kernel"


def test_a_document(torchwheel: Run) -> None:
    result = torchwheel(
        "matrix", MINITORCH, "-w", "a100,h100", "-w", "cpu", "--python", "3.12, 3.13,3.12",
        "--platform", "linux-x86_64,windows-amd64",
    )  # fmt: skip
    document = result.document("matrix")
    assert (result.status, document["left_out"]) == (0, [])
    assert [one["id"] for one in document["needless"]] == ["need-not-build"] * 4
    assert [job["id"] for job in document["jobs"]] == [
        f"{target}-{python}-{platform}"
        for platform in ("linux-x86-64", "win-amd64")
        for target in ("a100-h100", "cpu")
        for python in ("cp312", "cp313")
    ]
    for job in document["jobs"]:
        assert job["variables"]["JOB_KIND"] == "tree"
        assert job["variables"]["JOB_PROJECT"] == "examples/minitorch"
    # A line of GITHUB_OUTPUT.
    assert result.out.count("\n") == 1


def test_the_version_is_named_as_elsewhere_and_what_need_not_be_built_is_said(torchwheel: Run) -> None:
    words = ("matrix", MINITORCH, "-w", "a100", "--python", "3.12")
    result = torchwheel(*words, "--package-version", "2.14.1")
    (job,) = result.document("matrix")["jobs"]
    assert "2.14.1" in job["variables"].values()
    assert result.err == (
        "already published: a100 on linux_x86_64, Python 3.12: official builds of PyTorch\n"
        "    run there; `torchwheel plan` says which, and what building it yourself gives\n"
        "    [need-not-build]\n"
    )
    (one,) = torchwheel(*words, "-C", "package-version=2.14.1").document("matrix")["needless"]
    assert (one["id"], one["combinations"]) == (
        "need-not-build",
        [{"target": "a100", "platform": "linux_x86_64", "python": "3.12"}],
    )
    assert (
        "[contradiction]"
        in torchwheel(*words, "--package-version", "2.14.1", "-C", "package-version=2.13.0").err
    )


def test_what_is_left_out_is_said_beside_the_jobs(torchwheel: Run) -> None:
    result = torchwheel("matrix", MINITORCH, "-w", "cpu", "--python", "3.12,3.8")
    assert result.status == 0
    assert result.err.startswith(
        "left out: cpu on linux_x86_64, Python 3.8: PyTorch 2.14.1 needs Python >=3.10,\n"
        "    and this is 3.8.0  [python-not-supported]\n"
        "    fix: run torchwheel with Python 3.10\n"
        "already published: cpu on linux_x86_64, Python 3.12: official builds of PyTorch\n"
    )
    (left,) = result.document("matrix")["left_out"]
    assert (left["id"], left["combinations"]) == (
        "python-not-supported",
        [{"target": "cpu", "platform": "linux_x86_64", "python": "3.8"}],
    )


def test_the_targets_of_a_project_are_its_own(torchwheel: Run, here: Path) -> None:
    project = here / "project"
    project.mkdir()
    (project / "pyproject.toml").write_text(
        f"[tool.torchwheel]\nsource = '{MINITORCH}'\n[tool.torchwheel.target.h100]\n[tool.torchwheel.target.cpu]\n"
    )
    # The tree lies elsewhere, so the targets are known, and no job is.
    assert "source-not-in-checkout" in torchwheel("matrix", project).err
    words = ("matrix", KERNEL, "--python", "3.12", "--torch", "2.14.1")
    assert "[no-target]" in torchwheel(*words).err
    jobs = torchwheel(*words, "-w", "cpu").document("matrix")["jobs"]
    assert [job["torch"][-1] for job in jobs] == ["torch==2.14.1"]


@pytest.mark.parametrize(
    ("words", "id"),
    [
        (["--platform", "linuks"], "unknown-platform"),
        (["--python", "nonsense"], "unknown-python-version"),
        (["-w", "t4", "-C", "target=cpu"], "contradiction"),
        (["-C", "nonsense=1"], "unknown-setting"),
        (["-C", "env.CFLAGS=${{ github.token }}"], "expression-in-value"),
        (["-w", "rtx5o70"], "unknown-target"),
    ],
)
def test_what_cannot_be(torchwheel: Run, words: list[str], id: str) -> None:
    result = torchwheel("matrix", MINITORCH, "-w", "cpu", "--python", "3.12", *words)
    if id == "unknown-target":
        # Other targets have their jobs all the same.
        assert result.status == 0
    else:
        assert (result.status, json.loads(result.out)["ok"]) == (2, False)
    assert f"[{id}]" in result.err


def test_jobs_for_machines_without_images(torchwheel: Run) -> None:
    words = ("matrix", MINITORCH, "-w", "rtx5070", "--python", "3.12", "--platform", "linux-aarch64")
    assert [job["image"] for job in torchwheel(*words, "--no-image").document("matrix")["jobs"]] == [""]
    (job,) = torchwheel(*words).document("matrix")["jobs"]
    assert (job["image"].partition(":")[0], job["cuda_from"]) == ("nvidia/cuda", "system")
