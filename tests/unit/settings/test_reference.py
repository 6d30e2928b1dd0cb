from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.settings_page import reference
from places import REPOSITORY
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
    (tmp_path / "pyproject.toml").write_text(
        f"[tool.torchwheel]\n{all_keys()[name].toml_example()}\n", encoding="utf-8"
    )
    problems: list[Problem] = []
    assert read_project_settings(read_project(tmp_path), linux, problems)[0]
    assert problems == []
