"""The first command that an author of extensions types is about extensions, and no fix asks for a clone of PyTorch."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.running import Run

BACKEND = """\
[build-system]
requires = ["torchwheel", "torch"]
build-backend = "torchwheel.extension.backend"
"""
TABLES = f"""\
{BACKEND}
[project]
name = "ops"
version = "1.0"
[[tool.torchwheel.extension]]
name = "ops._C"
sources = ["a.cpp"]
"""
SETUP = "from setuptools import setup\nfrom torch.utils.cpp_extension import CppExtension\n"


@pytest.fixture(params=["tables", "backend", "setup.py"])
def project(request: pytest.FixtureRequest, here: Path) -> Path:
    if request.param == "setup.py":
        (here / "setup.py").write_text(SETUP, encoding="utf-8")
    else:
        text = TABLES if request.param == "tables" else BACKEND
        (here / "pyproject.toml").write_text(text, encoding="utf-8")
        (here / "CMakeLists.txt").touch()
    return here


@pytest.mark.parametrize("command", ["build", "doctor"])
def test_without_pytorch_beside_it(command: str, project: Path, torchwheel: Run) -> None:
    result = torchwheel(command)
    assert result.status == 2
    assert "[torch-not-installed]" in result.out + result.err
    assert "pip wheel --no-deps -w dist" in " ".join((result.out + result.err).split())


def test_a_plan_asks_the_index(here: Path, torchwheel: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "pyproject.toml").write_text(TABLES, encoding="utf-8")
    monkeypatch.setattr("torchwheel.cli.extension.ask_index", lambda *_: {"torch": "2.14.1"})
    assert "torch 2.14.1" in torchwheel("plan").out


@pytest.mark.parametrize("command", [("get",), ("build", "--configure-only"), ("components",), ("adopt",)])
def test_what_is_for_pytorch_alone_says_so(command: tuple[str, ...], project: Path, torchwheel: Run) -> None:
    result = torchwheel(*command, project)
    assert (result.status, result.out) == (2, "")
    assert "[not-pytorch]" in result.err
    assert f"torchwheel build {project}" in result.err.replace("'", "")


@pytest.mark.parametrize("option", [("--platform", "win_amd64"), ("--explain",), ("--host", "x")])
def test_a_plan_of_extensions_is_for_this_machine(
    option: tuple[str, ...], project: Path, torchwheel: Run
) -> None:
    result = torchwheel("plan", *option)
    assert result.status == 2
    assert f"{option[0]}: " in result.err
    assert "[contradiction]" in result.err


@pytest.mark.parametrize(
    ("text", "id"),
    [
        ('[build-system]\nbuild-backend = "torchwheel.backend"\n', "source-not-named"),
        ('[tool.torchwheel]\ntarget = "cpu"\n', "source-not-named"),
        ('[torchwheel]\nsource = "../pytorch"\n', "misspelt-table"),
    ],
)
@pytest.mark.parametrize("command", ["plan", "build", "doctor", "get"])
def test_a_wrapper_is_told_what_it_lacks(
    text: str, id: str, command: str, here: Path, torchwheel: Run
) -> None:
    (here / "pyproject.toml").write_text(text, encoding="utf-8")
    result = torchwheel(command)
    assert result.status == 2
    assert f"[{id}]" in result.out + result.err
    assert "git clone" not in result.out + result.err
