"""Toolkits newer than the table of releases: what is not known of them is said, and nvcc itself decides."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from places import MINITORCH
from preflight.contexts import context, toolkit
from torchwheel.cli.main import main
from torchwheel.preflight.host_file import host_file_text, read_host_file
from torchwheel.toolkit.host_compiler import HostCompilerLimits
from torchwheel.toolkit.pypi import requirements_for


def test_doctor_says_what_it_does_not_know(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    host = context(toolkits=(toolkit("14.0", limits=HostCompilerLimits(17, 23)),)).host
    path = tmp_path / "machine.toml"
    path.write_text(host_file_text(host), encoding="utf-8")
    assert read_host_file(path).toolkits == host.toolkits
    named = ("-C", "arch=7.5", "-C", "cuda-path=/usr/local/cuda-14.0")
    main(["doctor", str(MINITORCH), "--host", str(path), "--json", *named])
    findings = {one["id"]: one["severity"] for one in json.loads(capsys.readouterr().out)["findings"]}
    assert findings["toolkit-newer-than-table"] == "note"
    assert "error" not in findings.values()


def test_packages_of_a_newer_release_are_required_as_they_are() -> None:
    (newer,) = requirements_for("14.0")
    assert (newer.partition("[")[0], newer.partition("]")[2]) == ("cuda-toolkit", "==14.0.*")
