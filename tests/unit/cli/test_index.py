"""``torchwheel index`` as it is typed."""

from __future__ import annotations

from pathlib import Path

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
            "variant  torch-2.14.1+cu130.sm90a-py3-none-any.whl: variant properties cannot express sm90a",
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
