"""A wheel that one machine built is taken by the next, from a folder that both have."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from zipfile import ZipFile

import pytest

from backend.builds import check, clean_environment, make_tree, torchwheel, wrapper

PROJECT = "work of mine"


def machine(folder: Path, origin: Path, **settings: str) -> tuple[Path, dict[str, str]]:
    """A clone of the tree, a wrapper around it, and an environment with a cache of its own."""
    subprocess.run(["git", "clone", "-q", origin, folder / "tree"], check=True)
    project = wrapper(folder / PROJECT, folder / "tree", **{"build-env": '"current"', **settings})
    return project, clean_environment(folder / "cache")


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    tree = make_tree("scikit-build-core", tmp_path / "origin")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.invalid", "-C", tree]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"], ["tag", "v2.14.1"]):
        subprocess.run([*git, *arguments], check=True)
    return tree


def build(project: Path, environment: dict[str, str], *arguments: str) -> list[str]:
    """Build into ``dist``; what torchwheel itself says."""
    command = torchwheel("build", project, "-o", project / "dist", *arguments)
    lines = check(*command, cwd=project, env=environment).splitlines()
    told = [line for line in lines if line.startswith(("torchwheel: ", "took "))]
    return [re.sub(r"^(took +)\d+ s", r"\1N s", line) for line in told]


@pytest.mark.compiles
def test_a_team_builds_a_plan_once(tmp_path: Path, origin: Path) -> None:
    shared = tmp_path / "shared wheels"
    cache = {"wheel-cache": json.dumps([str(tmp_path / "none" / "x"), str(shared)])}
    (tmp_path / "none").touch()
    first, environment = machine(tmp_path / "first", origin, **cache)
    said = build(first, environment)
    (wheel,) = shared.glob("*.whl")
    (made,) = (first / "dist").glob("*.whl")
    assert wheel.read_bytes() == made.read_bytes()
    assert any(line.startswith(f"torchwheel: {wheel.name} could not be put into ") for line in said)

    second, elsewhere = machine(tmp_path / "second", origin, **cache)
    assert build(second, elsewhere) == [
        f"torchwheel: nothing is built: {wheel} was built for this plan, from this commit",
        "took         N s, 0 files were compiled",
    ]
    assert (second / "dist" / wheel.name).read_bytes() == wheel.read_bytes()
    assert not (tmp_path / "second" / "cache" / "builds").exists()

    # The same from another checkout replaces what is there without a word.
    (first / "dist" / wheel.name).write_bytes(wheel.read_bytes())
    third, own = machine(tmp_path / "other folder", origin)
    build(third, own, "-o", str(first / "dist"))

    # Other flags are another wheel of the same name.
    flags, more = machine(tmp_path / "third", origin, **cache)
    assert build(flags, {**more, "CXXFLAGS": "-DOTHER"})[0] == (
        f"torchwheel: {wheel} does not serve: it was built with other options"
    )
    # So is one that the tree's own backend leaves something out of, and it is in the same build folder.
    less = ("-C", "wheel.exclude=torch/test/**", "-o", str(tmp_path / "less"))
    build(second, elsewhere, *less, "-C", "skip-check=output-of-another-build")
    assert build(second, elsewhere, "-o", str(tmp_path / "more"))[0] == (
        f"torchwheel: {wheel} does not serve: it was built with other options"
    )


@pytest.mark.compiles
def test_what_the_proof_refuses_is_not_taken(tmp_path: Path, origin: Path) -> None:
    shared = tmp_path / "shared"
    first, environment = machine(tmp_path / "first", origin, **{"wheel-cache": f"'{shared}'"})
    build(first, environment)
    (wheel,) = shared.glob("*.whl")
    with ZipFile(wheel, "a") as archive:
        archive.writestr("torch/added.py", "import os")
    second, elsewhere = machine(tmp_path / "second", origin, **{"wheel-cache": f"'{shared}'"})
    said = build(second, elsewhere)
    assert said[0].startswith(f"torchwheel: {wheel} does not serve: ")
    assert "torch/added.py" in said[0]
