"""The shortest way to a wheel: an official one, one that was built before, or a build."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from torchwheel.engine.obtain import Choice, Way, carry_out, choose
from torchwheel.plan.make import make_plan
from torchwheel.survey import BuildRequest, survey

MINITORCH = Path(__file__).parents[2] / "examples" / "minitorch"


def git(tree: Path, *arguments: str) -> None:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.invalid", *arguments]
    subprocess.run(command, cwd=tree, check=True, capture_output=True)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """minitorch at the commit of a release."""
    folder = tmp_path / "tree"
    shutil.copytree(MINITORCH, folder)
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "x")
    git(folder, "tag", "v2.14.1")
    return folder


def request(tree: Path, target: str = "rtx5070", **settings: str) -> BuildRequest:
    environment = {"PATH": os.environ["PATH"], "TORCHWHEEL_CACHE_DIR": str(tree.parent / "cache")}
    return BuildRequest(tree, {"target": target, **settings}, environment)


def built(asked: BuildRequest, folder: Path, **changes: Any) -> Path:
    """A wheel of the name that the plan has, with a manifest as a build of that plan writes it."""
    plan = make_plan(survey(asked))
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / plan.wheel_name
    info = f"torch-{plan.version}.dist-info"
    facts = {
        "target": [],
        "profile": [],
        "fingerprint": plan.fingerprint,
        "source": {"commit": plan.tree.commit},
        "options": {"requested": {define.name: define.value for define in plan.defines}},
        **changes,
    }
    members = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: torch\nVersion: {plan.version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: false\nTag: cp311-cp311-linux_x86_64\n",
        f"{info}/RECORD": "",
        f"{info}/torchwheel.json": json.dumps({"schema": 1, "torchwheel": "1.0", "plan": facts}),
    }
    with ZipFile(wheel, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return wheel


def ways(choice: Choice) -> tuple[Way, str]:
    return choice.way, choice.reasons[-1]


def test_an_official_build_that_serves_is_taken(tree: Path) -> None:
    choice = choose(request(tree), ())
    assert choice.way is Way.PUBLISHED
    assert choice.arguments == ("torch==2.14.1",)
    assert choice.reasons == (
        "the official cu130 build of PyTorch 2.14.1 serves: sm_120 runs on 12.0: it is machine code for that "
        "architecture",
    )
    old = choose(request(tree, "gtx1080"), ())
    assert old.arguments == ("torch==2.14.1", "--index-url", "https://download.pytorch.org/whl/cu126")


def test_what_no_official_build_has_is_built(tree: Path) -> None:
    choice = choose(request(tree, disable="nccl"), ())
    assert choice.way is Way.BUILD
    assert choice.reasons[0].startswith(
        "the official cu130 build runs on the target, but lacks your own options: "
    )
    assert "USE_NCCL" in choice.reasons[0]
    assert choice.reasons[1] == f"{choice.plan.wheel_name} is in none of the places that were searched"


def test_a_wheel_that_was_built_before_is_taken(tree: Path, tmp_path: Path) -> None:
    asked = request(tree, disable="nccl")
    wheel = built(asked, tmp_path / "wheels")
    choice = choose(asked, (tmp_path / "dist", tmp_path / "wheels"))
    assert ways(choice) == (
        Way.BUILT_BEFORE,
        f"{wheel.name} was built for this plan before, from this commit",
    )
    assert carry_out(choice, asked, tmp_path / "dist").read_bytes() == wheel.read_bytes()


def test_a_wheel_of_another_machine_serves_with_the_same_options(tree: Path, tmp_path: Path) -> None:
    asked = request(tree, disable="nccl")
    built(asked, tmp_path, fingerprint="0" * 12)
    assert choose(asked, (tmp_path,)).way is Way.BUILT_BEFORE


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"fingerprint": "0", "options": {"requested": {"USE_NCCL": "1"}}},
            "it was built with other options",
        ),
        ({"source": {"commit": "1" * 40}}, "it was built from another commit"),
        ({"source": {"commit": None}}, "no commit says that the source is the same"),
    ],
)
def test_a_wheel_that_differs_is_not_taken(
    tree: Path, tmp_path: Path, changes: dict[str, Any], reason: str
) -> None:
    asked = request(tree, disable="nccl")
    wheel = built(asked, tmp_path, **changes)
    assert ways(choose(asked, (tmp_path,))) == (Way.BUILD, f"{wheel} does not serve: {reason}")


def test_a_changed_tree_needs_a_build(tree: Path, tmp_path: Path) -> None:
    asked = request(tree, disable="nccl")
    (tree / "version.txt").write_text((tree / "version.txt").read_text() + "\n")
    wheel = built(asked, tmp_path)
    assert ways(choose(asked, (tmp_path,))) == (
        Way.BUILD,
        f"{wheel} does not serve: this tree has changes that are not committed",
    )


@pytest.mark.slow
def test_an_index_is_asked_for_the_wheel(tree: Path, tmp_path: Path) -> None:
    asked = request(tree, disable="nccl")
    project = tmp_path / "simple" / "torch"
    wheel = built(asked, project)
    (project / "index.html").write_text(f'<a href="{wheel.name.replace("+", "%2B")}">{wheel.name}</a>')
    choice = choose(asked, (f"file://{tmp_path / 'simple'}",))
    assert choice.way is Way.BUILT_BEFORE
    assert choice.wheel is not None
    assert choice.wheel.read_bytes() == wheel.read_bytes()
    nowhere = choose(asked, (f"file://{tmp_path / 'nothing'}",))
    assert nowhere.way is Way.BUILD
