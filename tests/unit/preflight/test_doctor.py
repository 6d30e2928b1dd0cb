"""``torchwheel doctor`` as it is typed, on this machine and on described ones."""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from pathlib import Path

import jsonschema
import pytest

from places import HOSTS, MINITORCH
from put import put
from shipped_data import document_schema
from torchwheel.cli.main import main
from torchwheel.host.programs import ask_program
from torchwheel.reporting.errors import EXIT_REFUSED


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = main(["doctor", *arguments])
    return status, capsys.readouterr().out


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict:
    status, text = run(capsys, *arguments, "--json")
    found = json.loads(text)
    jsonschema.validate(found, document_schema("doctor"))
    assert status == (0 if found["ok"] else 2)
    return found


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name not in ("PATH", "HOME", "SYSTEMROOT"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("TORCHWHEEL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TORCHWHEEL_CONFIG_DIR", str(tmp_path / "config"))


def test_windows_machine_examined_from_here(capsys: pytest.CaptureFixture[str]) -> None:
    """The machine of a real series of failed builds: an RTX 5070 with CUDA 12.3."""
    found = document(capsys, str(MINITORCH), "--target", "rtx5070", "--host", str(HOSTS / "desiree.toml"))
    assert found["platform"] == "win_amd64"
    findings = [(row["severity"], row["id"]) for row in found["findings"]]
    assert findings[0] == ("error", "toolkit-lacks-architecture")
    assert findings[[severity for severity, _ in findings].count("error")] == ("note", "newer-driver-instead")
    assert found["findings"][0]["what"] == (
        r"CUDA 12.3 in C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA\v12.3 cannot compile for sm_120 (12.0)"
    )
    assert {"memory-too-small", "no-host-compiler", "disk-too-small"} <= {*found["passed"]}


def test_arm_machine_examined_from_here(capsys: pytest.CaptureFixture[str]) -> None:
    """A DGX Spark whose Python lacks setuptools, asked for MKL."""
    options = ("--target=gb10", "-Cdefine.BLAS=MKL", "-Cbuild-env=current")
    found = document(capsys, str(MINITORCH), *options, "--host", str(HOSTS / "dgx-spark.toml"))
    by_id = {row["id"]: row for row in found["findings"]}
    assert "OpenBLAS" in by_id["option-not-on-machine"]["remedy"]
    assert "option-not-on-machine" in {row["id"] for row in found["findings"] if row["severity"] == "error"}
    assert "pip install torch==2.14.1" in by_id["need-not-build"]["remedy"]
    assert "sm_120 runs on 12.1" in by_id["need-not-build"]["what"]


def test_settings_that_contradict_themselves_are_findings(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, str(MINITORCH), "--target", "rtx5060x", "--enable", "nccl,distribted")
    assert found["wheel"] == ""
    assert [row["id"] for row in found["findings"]] == ["unknown-component", "unknown-target"]


def test_dumped_machine_can_be_examined(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    status, text = run(capsys, "--dump-host")
    assert status == 0
    path = put(tmp_path / "machine.toml", text)
    found = document(capsys, str(MINITORCH), "--target", "cpu", "--host", str(path))
    assert found["ok"]


def test_a_machine_is_dumped_as_toml_only(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["doctor", "--dump-host", "--json"])
    assert ended.value.code == EXIT_REFUSED
    assert "[contradiction]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("variables", "coloured"), [("", False), ("FORCE_COLOR", True), ("FORCE_COLOR NO_COLOR", False)]
)
def test_colours(
    variables: str, coloured: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in variables.split():
        monkeypatch.setenv(name, "1")
    _, text = run(capsys, str(MINITORCH), "--target", "cpu", "--host", str(HOSTS / "dgx-spark.toml"))
    assert ("\x1b[32m" in text) is coloured


@pytest.mark.parametrize("columns", [50, 80, 100])
def test_text_fits_the_terminal(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    _, text = run(capsys, str(MINITORCH), "--target", "gb10", "--host", str(HOSTS / "dgx-spark.toml"))
    # A single word, such as a path or a flag, may be longer than a narrow terminal.
    assert [line for line in text.splitlines()[1:] if len(line) > columns and " " in line.strip()] == []


def compiler(folder: Path, commands: str) -> str:
    """A stand-in for g++ 14.2.0; what it is asked otherwise is no matter."""
    path = put(folder / "bin" / "g++", f"#!/bin/sh\n{commands}\necho 14.2.0\n", 0o755)
    return str(path)


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in is a shell script")
def test_a_compiler_that_hangs_is_no_compiler_that_is_fine(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("torchwheel.host.compilers.ask_program", partial(ask_program, seconds=0.3))
    path = compiler(tmp_path, "sleep 60")
    monkeypatch.setenv("CXX", path)
    found = document(capsys, str(MINITORCH), "--target", "cpu")
    told = {row["id"]: row["what"] for row in found["findings"]}
    assert told["host-compiler-does-not-work"].endswith(
        f"cannot be used: {path} took longer than 0.3 seconds"
    )
    assert "machine-did-not-answer" not in told
    assert "host-compiler-too-old" not in found["passed"]
    unchecked = {rule: row["missing"] for row in found["unchecked"] for rule in row["rules"]}
    assert unchecked["host-compiler-too-old"] == "the version of the C++ compiler"
