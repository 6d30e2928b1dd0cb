"""``torchwheel verify``."""

from __future__ import annotations

from pathlib import Path

from cli.running import Run
from wheel_samples import Entry, Samples, WheelRecipe

CODE = {"torch/lib/libtorch_cuda.so": Samples().library(Entry(kind=2, number=120))}


def test_a_wheel_that_is_what_it_says(torchwheel: Run, here: Path) -> None:
    wheel = WheelRecipe(files=CODE).write(here)
    result = torchwheel("verify", wheel, "--no-install")
    assert (result.status, result.err) == (0, "")
    assert [line.split()[0] for line in result.out.splitlines() if line[0] != " "] == [
        "wheel", "record", "names", "manifest", "libraries",
    ]  # fmt: skip
    document = torchwheel("verify", wheel, "--no-install", "--json").document("verify")
    assert (document["ok"], document["kind"], document["version"]) == (True, "wheel", "2.14.1+cu130.sm120")
    assert [(one["name"], one["outcome"]) for one in document["checks"]] == [
        ("record", "passed"),
        ("names", "passed"),
        ("manifest", "not tried"),
        ("libraries", "passed"),
    ]


def test_a_wheel_that_is_not(torchwheel: Run, here: Path) -> None:
    wheel = WheelRecipe(version="2.14.1+cu130.sm90", files=CODE).write(here)
    result = torchwheel("verify", wheel, "--no-install")
    assert (result.status, "[label-not-proved]" in result.out) == (3, True)
    result = torchwheel("verify", wheel, "--no-install", "--json")
    document = result.document("verify")
    assert (result.status, document["ok"]) == (3, False)
    assert [problem["id"] for one in document["checks"] for problem in one["problems"]] == [
        "label-not-proved"
    ]


def test_a_folder_that_nothing_installed(torchwheel: Run, here: Path) -> None:
    result = torchwheel("verify", here)
    assert (result.status, "[no-distribution-found]" in result.err) == (2, True)
