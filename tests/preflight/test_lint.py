"""``torchwheel lint``: the matrix, and what is wrong with a target whatever the machine."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import jsonschema
import pytest

from shipped_data import document_schema
from torchwheel.cli import lint as command
from torchwheel.errors import TorchwheelError
from torchwheel.preflight.lint import Cell, lint
from torchwheel.preflight.render import render_lint

REPOSITORY = Path(__file__).parents[2]


def project(folder: Path, text: str) -> Path:
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.slow
def test_shipped_overlays_are_sound() -> None:
    report = lint(None)
    assert [found.result.finding.render() for found in report.found] == []
    assert {cell.target for cell in report.cells} == {"a100", "cpu", "gb10", "sm120"}


@pytest.mark.slow
def test_matrix_of_a_shipped_overlay() -> None:
    cells = {(c.target, c.platform, c.pytorch): c for c in lint(None).cells}
    windows = cells["sm120", "win_amd64", "2.8"]
    assert windows == Cell("sm120", "win_amd64", "2.8", ("12.8", "12.9"), ())
    gb10 = cells["gb10", "linux_aarch64", "2.14"]
    assert (gb10.published, gb10.untried) == (("13.0", "13.2"), ("12.9", "13.1", "13.3", "13.4", "13.5"))
    assert cells["sm120", "linux_x86_64", "2.2"] == Cell("sm120", "linux_x86_64", "2.2", (), ())
    assert ("gb10", "win_amd64", "2.14") not in cells
    assert cells["cpu", "linux_x86_64", "2.6"] == Cell("cpu", "linux_x86_64", "2.6", ("",), ())


@pytest.mark.slow
def test_what_nobody_is_known_to_have_built_is_not_called_working() -> None:
    """PyTorch 2.4 does not compile with CUDA 13, and has no official build with 12.6."""
    cells = {(c.target, c.platform, c.pytorch): c for c in lint(None).cells}
    old = cells["a100", "linux_x86_64", "2.4"]
    assert old.published == ("11.8", "12.1", "12.4")
    assert "12.6" in old.untried
    assert not any(version.startswith("13") for version in old.untried)


def test_a_toolkit_whose_nvcc_crashes_is_not_one_that_no_rule_speaks_against() -> None:
    """CUDA 12.9 on Windows; where official builds are made with it all the same, that is said."""
    cells = {(c.target, c.platform, c.pytorch): c for c in lint(None).cells}
    windows = [cells["sm120", "win_amd64", version] for version in ("2.7", "2.8", "2.9")]
    assert [(cell.published, cell.untried) for cell in windows] == [
        (("12.8",), ()),
        (("12.8", "12.9"), ()),
        (("12.8", "13.0"), ("13.1", "13.2", "13.3", "13.4", "13.5")),
    ]
    assert "12.9" in cells["sm120", "linux_x86_64", "2.7"].untried


def test_a_range_without_any_capable_toolkit(tmp_path: Path) -> None:
    folder = project(tmp_path, '[tool.torchwheel.target.desktop]\ninherits = "rtx5070"\ncuda = "==12.3.*"\n')
    report = lint(folder)
    found = {(item.result.finding.id, item.platforms) for item in report.errors}
    platforms = ("linux_x86_64", "linux_aarch64", "win_amd64")
    assert ("no-working-combination", platforms) in found
    assert ("toolkit-lacks-architecture", platforms) in found
    one = next(item for item in report.errors if item.result.finding.id == "no-working-combination")
    assert one.result.finding.problem.what == (
        "desktop cannot be built: a rule speaks against every CUDA toolkit with PyTorch 2.0 to 2.15"
    )


def test_a_range_that_is_too_wide(tmp_path: Path) -> None:
    folder = project(tmp_path, '[tool.torchwheel.target.lab]\narch = "12.0"\ncuda = ">=12.4,<13"\n')
    report = lint(folder)
    assert [item.result.finding.render() for item in report.found] == [
        "warning: pyproject.toml [tool.torchwheel.target.lab]: lab admits CUDA 12.4 to 12.6 (cuda = >=12.4,<13), "
        "which cannot compile for 12.0  [range-admits-incapable-toolkit]\n"
        "    why: CUDA 12.8 to 13.5 compiles for all of them\n"
        '    fix: write cuda = ">=12.8,<=12.9"'
    ]
    assert report.errors == ()


def test_a_release_that_cannot_read_the_architecture_is_built_with_no_toolkit(tmp_path: Path) -> None:
    folder = project(tmp_path, '[tool.torchwheel.target.card]\narch = "12.0"\ncuda = "==12.9.*"\n')
    cells = {c.pytorch: c for c in lint(folder).cells if c.platform == "linux_x86_64"}
    assert [(cells[version].published, cells[version].untried) for version in ("2.5", "2.6", "2.8")] == [
        ((), ()),
        ((), ("12.9",)),
        (("12.9",), ()),
    ]


def test_settings_that_contradict_a_platform_are_errors_there(tmp_path: Path) -> None:
    folder = project(tmp_path, '[tool.torchwheel.target.node]\narch = "9.0"\nenable = ["nccl"]\n')
    report = lint(folder)
    found = [(item.target, item.platforms, item.result.finding.id) for item in report.errors]
    assert found == [("node", ("win_amd64",), "component-not-here")]
    assert {cell.platform for cell in report.cells} == {"linux_x86_64", "linux_aarch64"}


def test_a_project_with_a_tree_is_held_against_its_release_alone() -> None:
    report = lint(REPOSITORY / "examples" / "minitorch")
    assert {cell.pytorch for cell in report.cells} == {"2.14"}


def test_a_broken_pyproject_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TorchwheelError) as caught:
        lint(project(tmp_path, "[tool.torchwheel\n"))
    assert [problem.id for problem in caught.value.problems] == ["malformed-toml"]
    with pytest.raises(TorchwheelError) as caught:
        lint(project(tmp_path, '[tool.torchwheel.target.node]\nenable = ["ncl"]\n'))
    assert [problem.id for problem in caught.value.problems] == ["unknown-component"]


def test_text(tmp_path: Path) -> None:
    folder = project(tmp_path, '[tool.torchwheel.target.jet]\narch = "8.7"\ncuda = "==12.6.*"\n')
    lines = render_lint(lint(folder)).splitlines()
    assert lines[:4] == [
        "jet on linux_x86_64",
        "    PyTorch 2.0 to 2.2     none: a rule speaks against every CUDA toolkit",
        "    PyTorch 2.3 to 2.5     untried: CUDA 12.6",
        "    PyTorch 2.6 to 2.14    published: CUDA 12.6",
    ]
    assert lines[-4:] == [
        "published: an official build for the platform is made with it",
        "untried: no rule speaks against it, and no official build is known to be made",
        "    with it",
        "passed: 25 combinations published, 14 that nobody is known to have tried",
    ]


def test_consecutive_releases_stand_together(tmp_path: Path) -> None:
    folder = project(tmp_path, '[tool.torchwheel.target.node]\narch = "9.0"\ncuda = ">=12.5,<13.2"\n')
    lines = render_lint(lint(folder)).splitlines()
    row = lines.index("    PyTorch 2.12 to 2.13   published: CUDA 12.6, 12.9 to 13.0; untried: CUDA")
    assert lines[row + 1] == " " * 27 + "12.5, 12.8, 13.1"
    assert max(map(len, lines)) <= 80


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    command.populate(parser)
    folder = project(tmp_path, '[tool.torchwheel.target.desktop]\narch = "12.0"\ncuda = "==12.3.*"\n')
    assert command.run(parser.parse_args([str(folder)])) == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith("failed: ")
    assert command.run(parser.parse_args([str(folder), "--json"])) == 1
    found = json.loads(capsys.readouterr().out)
    jsonschema.validate(found, document_schema("lint"))
    assert found["ok"] is False
    assert command.run(parser.parse_args([])) == 0
