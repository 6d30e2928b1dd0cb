"""The fix of each first mistake, typed as it is printed, leads on: the same is not said again."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from backend.builds import make_tree
from cli.running import Result, Run

pytestmark = pytest.mark.usefixtures("wide")


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tree("scikit-build-core", tmp_path_factory.mktemp("fixes") / "a tree")


def said(result: Result) -> str:
    return result.out + result.err


def fixes(result: Result) -> str:
    """The lines of the first message that say what to do."""
    return said(result).split("fix: ", 1)[1].split("\n\n")[0]


def test_a_project_without_a_target(tree: Path, torchwheel: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each word that can be typed, each variable and each line of a file."""
    first = torchwheel("plan", tree)
    assert "[no-target]" in said(first)
    text = fixes(first)
    options = re.findall(r"--target \w+", text)
    assert len(options) == 3
    for option in options:
        assert "[no-target]" not in said(torchwheel("plan", tree, *option.split()))
    (name, value), (line,) = (
        *re.findall(r"(TORCHWHEEL_TARGET)=(\w+)", text),
        re.findall('target = "\\w+"', text),
    )
    with monkeypatch.context() as variables:
        variables.setenv(name, value)
        assert "[no-target]" not in said(torchwheel("plan", tree))
    Path("pyproject.toml").write_text(f"[tool.torchwheel]\nsource = '{tree}'\n{line}\n", encoding="utf-8")
    assert "[no-target]" not in said(torchwheel("plan"))


def test_a_wrapper_is_led_from_fix_to_fix(tree: Path, torchwheel: Run) -> None:
    file = Path("pyproject.toml")
    file.write_text("[torchwheel]\ntarget = 'cpu'\n", encoding="utf-8")
    first = torchwheel("plan")
    assert "[misspelt-table]" in said(first)
    (table,) = re.findall(r"write (\[[\w.]+\])", fixes(first))
    file.write_text(file.read_text(encoding="utf-8").replace("[torchwheel]", table), encoding="utf-8")
    second = torchwheel("plan")
    assert "[source-not-named]" in said(second)
    ((line, below),) = re.findall(r'write (source = ".*?") below (\[[\w.]+\])', fixes(second))
    given = line.replace("path/to/pytorch", str(tree))
    text = file.read_text(encoding="utf-8").replace(below, f"{below}\n{given}")
    file.write_text(text, encoding="utf-8")
    last = torchwheel("plan")
    assert last.status == 0
    assert "+cpu-" in said(last)


def test_a_project_of_extensions_is_led_to_its_own_commands(here: Path, torchwheel: Run) -> None:
    project = here / "ops of mine"
    project.mkdir()
    (project / "setup.py").write_text("from torchwheel import CUDAExtension\n", encoding="utf-8")
    first = torchwheel("get", project)
    assert "[not-pytorch]" in said(first)
    commands = re.findall(r"torchwheel (plan|build) (.*)", fixes(first))
    assert len(commands) == 2
    for command, words in commands:
        assert "[not-pytorch]" not in said(torchwheel(command, *shlex.split(words)))
