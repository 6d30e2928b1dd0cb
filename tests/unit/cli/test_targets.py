"""``torchwheel targets``."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.running import Run
from torchwheel.reporting.errors import Problem
from torchwheel.system.files import overlays_folder

MINE = """\
title = "the workstation under my desk"
kind = "target"
inherits = "rtx5070"
jobs = 4
"""


@pytest.fixture
def overlays(here: Path) -> Path:
    """The user's own overlay folder."""
    folder = here.parent / "config" / "overlays"
    folder.mkdir(parents=True)
    return folder


def test_the_table(torchwheel: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "pyproject.toml").write_text(
        '[tool.torchwheel.target."Big Box"]\narch = "8.0;9.0+PTX"\n', "utf-8"
    )
    monkeypatch.setenv("COLUMNS", "100")
    result = torchwheel("targets", "big")
    assert (result.status, result.err) == (0, "")
    table, rest = result.out.split("\n\n")
    assert table == (
        "NAME     KIND    CODE             FROM     WHAT IT IS\n"
        'big-box  target  sm80 sm90 ptx90  project  (pyproject.toml [tool.torchwheel.target."Big Box"])'
    )
    assert rest.startswith("A target is also every one of the ")


def test_a_name_of_several_layers_is_there_once(torchwheel: Run, overlays: Path) -> None:
    (overlays / "A100.toml").write_text('kind = "target"\njobs = 3\n', encoding="utf-8")
    listed = torchwheel("targets", "a100", "--json").document("targets")["targets"]
    assert [one["name"] for one in listed] == ["a100"]
    assert listed[0]["definitions"] == [
        {"layer": "built-in overlay", "origin": "overlays/a100.toml"},
        {"layer": "user overlay", "origin": f"{overlays}/A100.toml"},
    ]
    assert listed[0]["title"] == "NVIDIA A100 (Ampere, compute capability 8.0)"


def test_everything_that_is_shipped_is_listed_targets_first(torchwheel: Run) -> None:
    listed = torchwheel("targets", "--json").document("targets")["targets"]
    assert {one["name"] for one in listed} == {path.stem for path in overlays_folder().glob("*.toml")}
    assert [one["kind"] for one in listed] == sorted((one["kind"] for one in listed), reverse=True)
    assert all(one["title"] for one in listed)


@pytest.mark.usefixtures("wide")
def test_what_is_malformed_is_told_after_the_rest(torchwheel: Run, overlays: Path) -> None:
    (overlays / "desk.toml").write_text(MINE, encoding="utf-8")
    (overlays / "nokind.toml").write_text('title = "desk"\n', encoding="utf-8")
    (overlays / "typo.toml").write_text('kind = "target"\ninherits = "desk"\njbos = 3\n', encoding="utf-8")
    result = torchwheel("targets", "desk")
    assert result.status == 2
    assert result.out.splitlines()[1].split()[:4] == ["desk", "target", "sm120", "user"]
    assert result.err == (
        "torchwheel: 2 problems:\n"
        f"1. {overlays}/nokind.toml: the file does not say what it describes  [overlay-without-kind]\n"
        '       fix: add kind = "target", or kind = "profile"\n'
        f'2. {overlays}/typo.toml: "jbos" is not a setting  [unknown-setting]\n'
        "       fix: did you mean jobs?\n"
    )


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("T4", Problem.of("unknown-target/search-gpu", name="T4", gpu="t4")),
        ("xyz", Problem.of("unknown-target/search", name="xyz")),
    ],
)
def test_nothing_fits(text: str, problem: Problem, torchwheel: Run) -> None:
    result = torchwheel("targets", text)
    assert (result.status, result.out) == (2, "")
    assert result.err == f"torchwheel: {problem.render()}\n"
