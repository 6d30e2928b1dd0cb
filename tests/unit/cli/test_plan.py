"""``torchwheel plan`` as it is typed: what it says first, for which machine, and what a command line holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.running import Run
from places import HOSTS, MINITORCH


def test_what_nobody_has_tried_and_nobody_can_check_is_said_in_a_line_each(
    torchwheel: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    request = (MINITORCH, "--target", "rtx5070", "--host", HOSTS / "desiree.toml")
    document = json.loads(torchwheel("plan", *request, "--json").out)
    examined = json.loads(torchwheel("doctor", *request, "--json").out)
    assert {key: document[key] for key in ("evidence", "unchecked")} == {
        key: examined[key] for key in ("evidence", "unchecked")
    }
    assert document["evidence"].startswith("untried, as far as is known: ")
    lines = torchwheel("plan", *request).out.splitlines()
    assert f"evidence     {document['evidence']}" in lines
    (unchecked,) = (line for line in lines if line.startswith("unchecked "))
    assert unchecked.endswith("not known: cuDNN")


def test_a_described_machines_folders_are_its_own(torchwheel: Run, here: Path) -> None:
    words = (MINITORCH, "--target", "rtx5070", "--host")
    windows = torchwheel("plan", *words, HOSTS / "desiree.toml").out
    assert "\nbuilds in    C:/Users/morfo/AppData/Local/torchwheel/Cache/builds/torch-cu123.sm120-" in windows
    linux = torchwheel("plan", *words, HOSTS / "dgx-spark.toml").out
    assert "\nbuilds in    ~/.cache/torchwheel/builds/torch-cu130.sm120-" in linux
    assert "\n  Python_EXECUTABLE = python3\n" in linux
    assert "builds in" not in torchwheel("plan", MINITORCH, "--target", "cpu", "--platform", "win_amd64").out
    assert str(here.parent) not in windows + linux


@pytest.mark.parametrize(("version", "tag"), [("3.11", "cp311-cp311"), ("3.14t", "cp314-cp314t")])
def test_the_python_of_another_machine_is_named_by_its_version(
    torchwheel: Run, version: str, tag: str
) -> None:
    words = ("plan", MINITORCH, "--target", "cpu", "--platform", "win_amd64", "--python", version)
    result = torchwheel(*words)
    assert f"{tag}-win_amd64" in result.out
    assert "Python_EXECUTABLE = python.exe" in result.out


@pytest.mark.parametrize("version", ["rubbish", "3", "2.7", "/usr/bin/python3", "0"])
def test_what_is_no_version_of_python_is_refused(torchwheel: Run, version: str) -> None:
    words = ("plan", MINITORCH, "--target", "cpu", "--platform", "win_amd64", "--python", version)
    result = torchwheel(*words)
    assert (result.status, result.out) == (2, "")
    assert "[unknown-python-version]" in result.err


def test_errors_stand_before_the_plan(torchwheel: Run) -> None:
    words = ("plan", MINITORCH, "--target", "cpu", "--platform", "win_amd64", "--python", "3.8")
    result = torchwheel(*words)
    assert result.status == 2
    assert result.out.startswith("error: ")
    assert result.out.count("[python-not-supported]") == 1
    assert result.out.index("[python-not-supported]") < result.out.index("\nwheel ")
