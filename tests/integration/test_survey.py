"""What is looked at before a plan is made.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from backend.builds import make_tree
from refusals import ids_of
from torchwheel.engine.wheel_sources import choose_way
from torchwheel.extension.extension_survey import read_extension_project
from torchwheel.plan.make import make_plan
from torchwheel.survey import BuildRequest, survey


@pytest.mark.skipif(os.name == "nt", reason="an environment has one interpreter there")
@pytest.mark.parametrize("build_env", ["auto", "current"])
def test_the_name_that_an_interpreter_is_called_by_makes_no_other_build(
    tmp_path: Path, build_env: str
) -> None:
    """The scripts of one environment name ``python`` and ``python3``, by who installed them."""
    tree, environment = make_tree("setup.py", tmp_path / "tree"), tmp_path / "environment"
    venv = [sys.executable, "-m", "venv", "--without-pip", "--system-site-packages", environment]
    subprocess.run(venv, check=True)
    paths = os.pathsep.join(map(str, sys.path[1:]))
    plans = []
    for name in ("python", "python3", f"python3.{sys.version_info.minor}"):
        command = [environment / "bin" / name, "-m", "torchwheel", "plan", "--json", tree]
        asked = [
            "-C",
            "target=cpu",
            "-C",
            f"build-env={build_env}",
            "-C",
            "skip-check=build-packages-missing",
        ]
        own = {"PYTHONPATH": paths, "TORCHWHEEL_CACHE_DIR": str(tmp_path / "cache")}
        plans.append(json.loads(subprocess.check_output([*command, *asked], env={**os.environ, **own})))
    assert plans[1:] == plans[:1] * 2


@pytest.mark.skipif(os.name == "nt", reason="Windows has access lists instead")
def test_a_cache_that_others_can_write_to_stops_trees_extensions_and_get(tmp_path: Path) -> None:
    tree = make_tree("scikit-build-core", tmp_path / "tree")
    environment = {"TORCHWHEEL_CACHE_DIR": str(tmp_path / "cache"), "PATH": os.environ["PATH"]}
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o777)
    request = BuildRequest(tree, {"target": "cpu"}, environment)
    assert "cache-not-private" in [finding.id for finding in make_plan(survey(request)).errors]
    assert ids_of(choose_way, request, ()) == ["cache-not-private"]
    project = tmp_path / "project"
    project.mkdir()
    (project / "setup.py").write_text("from torchwheel import CppExtension\n", encoding="utf-8")
    extension = read_extension_project(BuildRequest(project, {}, environment))
    assert [finding.id for finding in extension.findings] == ["cache-not-private"]
    skipped = BuildRequest(tree, {"target": "cpu", "skip-check": "cache-not-private"}, environment)
    assert choose_way(skipped, ()).stops is False
    (tmp_path / "cache").chmod(0o755)
    (tmp_path / "builds").mkdir()
    (tmp_path / "builds").chmod(0o777)
    elsewhere = BuildRequest(tree, {"target": "cpu", "build-dir": str(tmp_path / "builds")}, environment)
    assert "cache-not-private" in [finding.id for finding in make_plan(survey(elsewhere)).errors]
    assert make_plan(survey(request)).errors == ()
