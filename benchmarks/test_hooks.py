"""Every hook through torchwheel beside the same hook of scikit-build-core alone, in turn, on examples/minitorch.

Both sides get the same options, environment and jobs: those that torchwheel planned. Each call is a process of its own,
started by pyproject-hooks as front ends do it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyproject_hooks import BuildBackendHookCaller

from torchwheel.engine.hooks import tree_backend
from torchwheel.plan.make import make_plan
from torchwheel.survey import BuildRequest, survey

MINITORCH = Path(__file__).resolve().parent.parent / "examples" / "minitorch"
FACTOR, CONSTANT_SECONDS = 1.0, 1.0
PYPROJECT = """
[build-system]
requires = ["torchwheel"]
build-backend = "torchwheel.backend"

[tool.torchwheel]
source = '{source}'
target = "cpu"
version = "2.14.1"
build-env = "current"
"""


@dataclass(frozen=True)
class Side:
    """A project whose hooks are timed.

    Attributes:
        project: its folder.
        backend: its build backend.
        environment: the hooks' whole environment.
        settings: their config settings.
        build: CMake's build directory.
    """

    project: Path
    backend: str
    environment: Mapping[str, str]
    settings: Mapping[str, str | list[str]]
    build: Path

    def call(self, hook: str, folder: Path) -> float:
        """The seconds that a hook takes; what it writes goes into a new folder."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        caller = BuildBackendHookCaller(str(self.project), self.backend, runner=self._run)
        function = getattr(caller, hook)
        start = time.perf_counter()
        if hook.startswith("get_requires"):
            function(self.settings)
        elif hook.startswith("prepare"):
            function(str(folder), self.settings, False)
        else:
            function(str(folder), self.settings)
        return time.perf_counter() - start

    def _run(
        self, cmd: Sequence[str], cwd: str | None = None, extra_environ: Mapping[str, str] | None = None
    ) -> None:
        environment = {**self.environment, **(extra_environ or {})}
        subprocess.run(list(cmd), cwd=cwd, env=environment, check=True, capture_output=True)


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> tuple[Side, Side]:
    """torchwheel's wrapper project, and the tree alone with what torchwheel planned for it."""
    folder = tmp_path_factory.mktemp("hooks")
    tree, alone = folder / "tree", folder / "alone"
    generate = [sys.executable, str(MINITORCH / "tools" / "make_generation.py"), "scikit-build-core"]
    for destination in (tree, alone):
        subprocess.run([*generate, str(destination)], check=True)
    project = folder / "project"
    project.mkdir()
    (project / "pyproject.toml").write_text(PYPROJECT.format(source=tree), encoding="utf-8")
    scripts = str(Path(sys.executable).parent)
    outer = {name: os.environ[name] for name in ("HOME", "LANG", "SYSTEMROOT", "TEMP") if name in os.environ}
    outer |= {
        "PATH": scripts + os.pathsep + os.environ["PATH"],
        "TORCHWHEEL_CACHE_DIR": str(folder / "cache"),
    }
    plan = make_plan(survey(BuildRequest(project, {}, outer)))
    settings = {**plan.inner_config_settings, "build-dir": str(folder / "build")}
    wrapped = Side(
        alone, "scikit_build_core.build", tree_backend(plan, outer).environment, settings, folder / "build"
    )
    ours = Side(project, "torchwheel.backend", outer, {}, plan.folders.build)
    return ours, wrapped


@pytest.mark.parametrize(
    ("hook", "cold", "rounds"),
    [
        ("get_requires_for_build_wheel", False, 15),
        ("prepare_metadata_for_build_wheel", False, 15),
        ("get_requires_for_build_editable", False, 15),
        ("prepare_metadata_for_build_editable", False, 15),
        ("build_sdist", False, 15),
        ("build_wheel", False, 15),
        ("build_editable", False, 15),
        ("build_wheel", True, 5),
    ],
    ids=lambda value: (
        {True: "from nothing", False: "nothing to compile"}.get(value) if isinstance(value, bool) else None
    ),
)
def test_hook(
    benchmark: Any, bars: Any, sides: tuple[Side, Side], tmp_path: Path, hook: str, cold: bool, rounds: int
) -> None:
    """pytest-benchmark times torchwheel; before each of its rounds scikit-build-core alone has its turn."""
    ours, wrapped = sides
    alone: list[float] = []
    for side in sides:
        side.call(hook, tmp_path / "first")

    def turn_of_the_other() -> None:
        if cold:
            for side in sides:
                shutil.rmtree(side.build)
        alone.append(wrapped.call(hook, tmp_path / "alone"))

    benchmark.pedantic(ours.call, args=(hook, tmp_path / "ours"), setup=turn_of_the_other, rounds=rounds)
    name = f"{hook}, from nothing" if cold else hook
    bars.paired(name, benchmark.stats.stats.data, alone, factor=FACTOR, constant=CONSTANT_SECONDS)
