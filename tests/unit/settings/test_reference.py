from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.settings_page import reference
from places import REPOSITORY
from put import put
from settings.loading import Load, Refuse
from torchwheel.host.machine import Host
from torchwheel.reporting.errors import Problem
from torchwheel.settings.components import read_components
from torchwheel.settings.config_settings import OTHER_VARIABLES, read_passthrough
from torchwheel.settings.known_keys import TABLE_HEADER, all_keys
from torchwheel.settings.project import read_project, read_project_settings
from torchwheel.settings.pytorch_env import pytorch_variables

PAGE = REPOSITORY / "docs" / "settings.md"


def test_the_page_is_not_stale() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference(), "run: make docs"


def test_everything_is_in_it() -> None:
    mentioned = set(re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", reference(), flags=re.DOTALL)))
    names = {f"{name}.NAME" if key.table else name for name, key in {**all_keys(), **TABLE_HEADER}.items()}
    read = {name for entry in pytorch_variables().table["variable"] for name in entry["names"]}
    variables = {*read, *OTHER_VARIABLES}
    parts = {name for item in read_components() for name in (item.name, *item.aliases, *item.options)}
    assert {*names, *variables, *parts, *read_passthrough().backends} - mentioned == set()


def test_its_example_is_right(tmp_path: Path, linux: Host) -> None:
    example = re.search(r"```toml\n(.*?)```", reference(), re.DOTALL)
    assert example
    (tmp_path / "pyproject.toml").write_text(example.group(1), encoding="utf-8")
    problems: list[Problem] = []
    settings, _ = read_project_settings(read_project(tmp_path), linux, problems)
    assert problems == []
    assert {setting.key for setting in settings} == {
        "source",
        "target",
        "define.USE_DISTRIBUTED",
        "define.BUILD_TEST",
        "define.USE_NATIVE_ARCH",
    }


@pytest.mark.parametrize("name", all_keys())
def test_every_example_is_right(name: str, tmp_path: Path, linux: Host) -> None:
    put(tmp_path / "pyproject.toml", f"[tool.torchwheel]\n{all_keys()[name].toml_example()}\n")
    problems: list[Problem] = []
    assert read_project_settings(read_project(tmp_path), linux, problems)[0]
    assert problems == []


HEAD = "[tool.torchwheel]\n"


def applied(text: str, problem: Problem) -> str:
    """The text, changed as the fix says."""
    if line := re.match(r'write ((\S+) = (?:"[^"]*"|[^,]*))', problem.remedy):
        return re.sub(rf"^{line[2]} = .*$", line[1], text, flags=re.MULTILINE)
    name = re.search('"([^"]+)"', problem.what)
    right = re.match('(?:write|did you mean) "?([^"?(]+[^"?( ])', problem.remedy)
    assert name and right
    return text.replace(name[1], right[1])


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ('target = "a100 t4"', {"a100", "t4"}),
        ('target = "rtx5071"', set()),
        ('architecture = "12.0"', {"12.0"}),
        ('architectures = "12.0"', {"12.0"}),
        ('targets = ["a100"]', {"a100"}),
        ("arch = 12.0", {"12.0"}),
        ("cuda = 13.0", {"13.0"}),
        ('jobs = "4"', {"4"}),
        ('traceback = "true"', {"true"}),
        ('disable = "USE_NCCL"', set()),
        ('disable = "ncll"', set()),
        ('profile = "minimum"', set()),
    ],
)
def test_a_fix_in_pyproject(written: str, kept: set[str], load: Load, refuse: Refuse) -> None:
    (problem,) = refuse(pyproject=HEAD + written)
    fixed = applied(written, problem)
    assert fixed != written
    assert all(text in fixed for text in kept)
    load(pyproject=HEAD + fixed)


@pytest.mark.parametrize(
    ("key", "value"), [("taget", "rtx5070"), ("target", "a100 t4"), ("job", "4"), ("disable", "USE_NCCL")]
)
def test_a_fix_on_the_command_line(key: str, value: str, load: Load, refuse: Refuse) -> None:
    (problem,) = refuse(config={key: value})
    if option := re.search(r"-C (\S+)=([^\s?]+)", problem.remedy):
        assert option[2] == value
        load(config={option[1]: option[2]})
    else:
        load(config={key: applied(value, problem)})
