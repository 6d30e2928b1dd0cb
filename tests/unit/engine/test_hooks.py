"""What of the outer environment reaches the tree's own backend, and what its hooks are given."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from backend.builds import make_tree
from refusals import error_of
from torchwheel.engine import hooks
from torchwheel.engine.hooks import call_hook, inner_environment, prepare_metadata
from torchwheel.engine.venv import Installing
from torchwheel.plan.build_plan import Variable
from torchwheel.plan.make import make_plan
from torchwheel.reporting.errors import Problem
from torchwheel.settings import Layer
from torchwheel.survey import BuildRequest, survey


def test_the_inner_environment_has_resolved_values_only(tmp_path: Path) -> None:
    tree = make_tree("scikit-build-core", tmp_path / "tree")
    asked = {"target": "cpu", "build-env": "managed"}
    made = make_plan(survey(BuildRequest(tree, asked, {"TORCHWHEEL_CACHE_DIR": str(tmp_path / "cache")})))
    value = partial(Variable, layer=Layer.DEFAULT, origin="the test")
    front = [value(*one, prepend=True) for one in (("PATH", "/a"), ("PATH", "/b"), ("NEW", "/c"))]
    plan = replace(made, variables=(value("USE_CUDA", "0"), *front), python_executable="/venv/bin/python")
    outer = {"HOME": "/h", "USE_CUDA": "1", "PATH": "/bin", "PYTHONPATH": "/front/end"}
    # What git sets in its hooks: the build would ask, and write into, that repository.
    outer |= {"GIT_DIR": "/other/.git", "GIT_WORK_TREE": "/other", "GIT_INDEX_FILE": ".git/index"}
    assert inner_environment(plan, outer) == {
        "HOME": "/h",
        "USE_CUDA": "0",
        "PATH": os.pathsep.join(["/a", "/b", "/venv/bin", "/bin"]),
        "NEW": "/c",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "GIT_OPTIONAL_LOCKS": "0",
    }


class Caller:
    """In the place of pyproject-hooks: the tree's own backend, which requires one package more."""

    def __init__(self, folder: str, *_: object, **__: object) -> None:
        done.append(("folder", folder))

    def get_requires_for_build_wheel(self, _: object) -> list[str]:
        done.append(("get_requires_for_build_wheel",))
        return ["one-more"]

    def prepare_metadata_for_build_wheel(self, folder: str, *_: object) -> str:
        done.append(("prepare_metadata_for_build_wheel", folder))
        return "torch-2.14.1.dist-info"


done: list[tuple[object, ...]] = []


@pytest.mark.parametrize("build_env", ["managed", "current"])
def test_metadata_needs_what_the_backend_requires_and_no_cuda_toolkit(
    build_env: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PEP 517: prepare_metadata is called in an environment with what get_requires_for_build_wheel names."""
    done.clear()

    def ensure(folder: Path, requires: tuple[str, ...], _log: Path, installing: Installing) -> None:
        done.append((folder.parent.name, requires))

    monkeypatch.setattr(hooks, "BuildBackendHookCaller", Caller)

    def overlay(folder: Path, more: tuple[str, ...], _log: Path, installing: Installing) -> dict[str, str]:
        ensure(folder, more, _log, installing)
        return {}

    monkeypatch.setattr(hooks, "ensure_environment", ensure)
    monkeypatch.setattr(hooks, "ensure_overlay", overlay)
    tree = make_tree("scikit-build-core", tmp_path / "tree")
    config = {
        "target": "rtx5070",
        "cuda-from": "pypi",
        "cuda": "13.0",
        "package-version": "2.14.1",
        "build-env": build_env,
    }
    variables = {"TORCHWHEEL_CACHE_DIR": str(tmp_path / "cache"), "PATH": "/usr/bin:/bin"}
    request = BuildRequest(tree, config, variables)
    assert prepare_metadata(request, tmp_path / "metadata", kind="wheel") == "torch-2.14.1.dist-info"
    installed = [("environments", ("scikit-build-core>=1.0",)), ("get_requires_for_build_wheel",)]
    assert [step for step in done if step[0] != "folder"] == [
        *([*installed, ("environments", ("one-more",))] if build_env == "managed" else []),
        ("prepare_metadata_for_build_wheel", str(tmp_path / "metadata")),
    ]
    assert {step[1] for step in done if step[0] == "folder"} == {str(tree)}
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == ["builds"]


def test_a_backend_that_is_not_there(tmp_path: Path) -> None:
    """As where build-env=current has no scikit-build-core: pyproject-hooks raises BackendUnavailable."""

    def stream(command: Sequence[str], *, folder: Path, environment: Mapping[str, str]) -> None:
        subprocess.run(command, cwd=folder, env=environment, check=True)

    backend = ("no_such_backend.build",)
    hook = "get_requires_for_build_wheel"
    error = error_of(call_hook, backend, hook, (), stream, folder=tmp_path, environment=os.environ)
    assert error.render() == (
        Problem.of(
            "backend-not-importable",
            python=sys.executable,
            backend="no_such_backend.build",
            reason="ModuleNotFoundError: No module named 'no_such_backend'",
        ).render()
    )
