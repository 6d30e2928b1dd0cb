"""``torchwheel index`` as it is typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.running import Run
from fleet.sites import SiteRecipe, fleet_of


def test_a_site_in_words(torchwheel: Run, wide: None, here: Path) -> None:
    fleet_of(here / "dist")
    result = torchwheel("index", "dist", "-o", "site", "--variants")
    assert (result.status, result.err) == (0, "")
    rows = [line.split(maxsplit=1) for line in result.out.splitlines()]
    assert rows[0] == ["site", f"{here / 'site'}: 4 wheels"]
    assert rows[-2:] == [
        ["variants", "simple: 3 wheels"],
        [
            "no",
            "variant  torch-2.14.1+cu130.sm90a-py3-none-linux_x86_64.whl: variant properties cannot express sm90a",
        ],
    ]
    again = torchwheel("index", "dist", "-o", "site").out
    assert "added" not in again and "no variant" in again


def test_a_document(torchwheel: Run, here: Path) -> None:
    wheel = SiteRecipe().write(here)
    document = torchwheel("index", wheel, "-o", "site", "--json").document("index")
    path = f"cu130.sm120/simple/torch/{wheel.name}"
    assert (document["added"], document["removed"]) == ([path], [])
    (row,) = document["wheels"]
    assert (row["path"], row["label"], row["variant"]) == (path, "cu130.sm120", None)


def test_a_wheel_that_is_not_what_it_says(torchwheel: Run, here: Path) -> None:
    wheel = SiteRecipe("2.14.1+cu130.sm90", code=["sm120"]).write(here)
    result = torchwheel("index", wheel, "-o", "site")
    assert (result.status, result.out) == (3, "")
    assert "[label-not-proved]" in result.err
    assert torchwheel("index", "nowhere", "-o", "site").status == 2


def test_a_release_that_is_not_complete(torchwheel: Run, here: Path) -> None:
    fleet_of(here / "dist")
    torchwheel("index", "dist", "-o", "site")
    wheel = SiteRecipe("2.15.0+cpu", code=()).write(here)
    result = torchwheel("index", wheel, "-o", "site")
    assert result.status == 0 and "held back" in result.out
    assert "lacks cu130.sm120 for py3-none" in " ".join(result.out.split())
    rows = torchwheel("index", "-o", "site", "--promote", "torch==2.15.0", "--json").document("index")[
        "wheels"
    ]
    assert [row["held"] for row in rows] == [""] * 5
    document = torchwheel("index", "-o", "site", "--yank", "torch==2.15.0", "--json").document("index")
    assert [row["held"] for row in document["wheels"] if "2.15.0" in row["path"]] == ["withdrawn"]


def test_the_jobs_of_a_matrix(torchwheel: Run, here: Path) -> None:
    jobs = [{"gpus": ["h100"], "python": "3.11", "platform": "linux_x86_64"}]
    (here / "matrix.json").write_text(json.dumps({"jobs": jobs}))
    words = ("index", SiteRecipe("2.15.0+cpu", code=()).write(here), "-o", "site", "--matrix", "matrix.json")
    (row,) = torchwheel(*words, "--json").document("index")["wheels"]
    assert row["held"].endswith("lacks h100, Python 3.11 on linux_x86_64")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("", "-o", "site"), "empty-path"),
        (("a.whl", "-o", ""), "empty-path"),
        (("-o", "site", "--yank", "torch>1"), "malformed-release"),
        (("-o", "site", "--promote", "???"), "malformed-release"),
        (("-o", "site", "--matrix", "pyproject.toml"), "malformed-matrix"),
        (("-o", "site", "--matrix", "nowhere"), "unreadable-file"),
    ],
)
def test_a_wrong_argument(torchwheel: Run, here: Path, words: tuple[str, ...], problem: str) -> None:
    (here / "pyproject.toml").write_text("[project]")
    result = torchwheel("index", *words)
    assert (result.status, f"[{problem}]" in result.err) == (2, True)
