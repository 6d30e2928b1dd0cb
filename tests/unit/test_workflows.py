""".github/workflows: held by GitHub's schema, by actionlint where it is there, and by what the project promises."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.specifiers import SpecifierSet

from places import REPOSITORY
from torchwheel.system.toml import read_toml

WORKFLOWS = sorted((REPOSITORY / ".github" / "workflows").glob("*.yml"))
PROGRAMS = sysconfig.get_path("scripts") + os.pathsep + os.environ["PATH"]


def judged(program: str, *arguments: str | Path) -> None:
    found = shutil.which(program, path=PROGRAMS)
    if found is None:
        pytest.skip(f"there is no {program} here")
    done = subprocess.run([found, *arguments], capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def jobs(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(
        (REPOSITORY / ".github/workflows" / name).read_text(encoding="utf-8")
    )
    return found["jobs"]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_actionlint_has_nothing_to_say(workflow: Path) -> None:
    judged("actionlint", workflow)


def test_every_python_and_system_that_is_promised_is_tried() -> None:
    matrix = jobs("ci.yml")["unit"]["strategy"]["matrix"]
    assert [system.partition("-")[0] for system in matrix["system"]] == ["ubuntu", "windows", "macos"]
    assert matrix["python"] == ["3.10", "3.11", "3.12", "3.13", "3.14"]
    requires = SpecifierSet(read_toml(REPOSITORY / "pyproject.toml")["project"]["requires-python"])
    assert [python for python in ("3.9", *matrix["python"]) if python in requires] == matrix["python"]


def test_only_what_publishes_may_ask_for_a_token() -> None:
    permissions = {name: job.get("permissions") for name, job in jobs("release.yml").items()}
    assert permissions == {"build": {"contents": "read"}, "publish": {"id-token": "write"}}


def test_the_hooks_that_install_something_pin_it() -> None:
    config = yaml.safe_load((REPOSITORY / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    hooks = [hook for repo in config["repos"] for hook in repo["hooks"]]
    installing = [hook for hook in hooks if hook["language"] != "system"]
    assert {hook["id"] for hook in installing} >= {"ruff-check", "ruff-format"}
    for hook in installing:
        assert all("==" in requirement for requirement in hook["additional_dependencies"]), hook["id"]
