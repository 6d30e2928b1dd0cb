"""The staged copy: what is copied, what is left out, and what a second run does.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from backend.builds import make_tree
from put import append, put
from torchwheel.engine.staging import locked_folders
from torchwheel.plan.build_plan import Plan
from torchwheel.plan.make import make_plan
from torchwheel.preflight.report import run_preflight
from torchwheel.preflight.tree_facts import foreign_libraries
from torchwheel.reporting.errors import TorchwheelError
from torchwheel.survey import BuildRequest, survey
from tree.small_trees import commit_all, git
from unit.engine.test_staging import tree

__all__ = ["tree"]


@pytest.mark.parametrize("change", ["an edit", "another commit"])
def test_a_tree_that_was_changed_while_its_build_waited_is_not_built(change: str, tmp_path: Path) -> None:
    tree = make_tree("scikit-build-core", tmp_path / "tree")
    commit_all(tree)
    git(tree, "tag", "v2.14.1")
    variables = {"TORCHWHEEL_CACHE_DIR": str(tmp_path / "cache"), "PATH": os.environ["PATH"]}
    plan = make_plan(survey(BuildRequest(tree, {"target": "cpu"}, variables)))
    (tree / "torch" / "new.py").touch()
    with locked_folders(plan, variables):
        pass
    if change == "an edit":
        (tree / "torch" / "__init__.py").write_text("x = 1\n", encoding="utf-8")
        now = "v2.14.1 (changed)"
    else:
        now = commit_all(tree)[:7]
    with pytest.raises(TorchwheelError) as refused, locked_folders(plan, variables):
        pass
    (problem,) = refused.value.problems
    assert (problem.id, now in problem.what) == ("checkout-changed", True)


@pytest.mark.parametrize("cache", ["the same", "another"])
def test_builds_in_one_tree_take_turns(cache: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def plan_with(cache: str, target: str) -> Plan:
        variables = {"TORCHWHEEL_CACHE_DIR": str(tmp_path / cache), "PATH": "/usr/bin"}
        return make_plan(survey(BuildRequest(tree, {"target": target}, variables, in_place=True)))

    def waits(text: str) -> None:
        raise RuntimeError(text)

    tree = make_tree("setup.py", tmp_path / "tree")
    one, other = plan_with("the same", "cpu"), plan_with(cache, "rtx5070")
    monkeypatch.setattr("torchwheel.engine.session.say", waits)
    waiting = f"waiting for another build of {tree} to end"
    with locked_folders(one, {}), pytest.raises(RuntimeError, match=waiting), locked_folders(other, {}):
        pass
    with locked_folders(other, {}):
        pass


@pytest.mark.parametrize(
    ("changed", "looks"),
    [
        ({"MPI_HOME": "/b"}, True),
        ({"Redis_ROOT": "/b"}, True),
        ({"FORK_OVERRIDES": "1"}, True),
        ({"FORK_FLAGS": "-O1"}, True),
        # A CMake file may read it by a name that it computes.
        ({"FORK": "1"}, True),
        ({"SHLVL": "2"}, False),
        ({"PATH": "/usr/bin:/bin"}, False),
        ({"MAX_JOBS": "1"}, False),
        # A setup.py may import from it.
        ({"PYTHONPATH": "/b"}, True),
    ],
)
def test_cmake_looks_again_where_a_variable_is_another_that_it_may_read(
    changed: dict[str, str], looks: bool, tmp_path: Path
) -> None:
    tree = make_tree("scikit-build-core", tmp_path / "tree")
    append(tree / "CMakeLists.txt", "set(PYTHONPATH $ENV{PYTHONPATH})\n")
    append(
        tree / "pyproject.toml",
        "\n[[tool.scikit-build.overrides]]\nif.any.env.FORK_OVERRIDES = true\n"
        'cmake.define.USE_KINETO = "OFF"\ncmake.define.FLAGS = { env = "FORK_FLAGS" }\n',
    )
    said = []
    for more in ({}, changed):
        variables = {"TORCHWHEEL_CACHE_DIR": str(tmp_path / "cache"), "PATH": "/usr/bin", "PYTHONPATH": "/a"}
        asked = {"target": "cpu", "build-env": "managed"}
        plan = make_plan(survey(BuildRequest(tree, asked, variables | more)))
        with locked_folders(plan, variables | more):
            said.append((plan.folders.build, plan.folders.defines_file.read_bytes()))
    assert (said[0] != said[1]) is looks


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_what_a_build_for_a_gpu_left_in_a_tree_that_is_built_in_place(tmp_path: Path) -> None:
    """It is named before the build, and stays where it is."""
    tree = make_tree("setup.py", tmp_path / "tree")
    own, left = tree / "torch" / "lib" / "cuda_kept.txt", tree / "torch" / "lib" / "libtorch_cuda.so"
    put(own, "source")
    git(tree, "init")
    (tree / ".gitignore").write_text("*.so\n")
    left.write_bytes(b"")
    environment = {"PATH": os.environ["PATH"], "TORCHWHEEL_CACHE_DIR": str(tmp_path / "cache")}

    def planned(*, in_place: bool = True, **settings: str) -> Plan:
        return make_plan(survey(BuildRequest(tree, settings, environment, in_place=in_place)))

    cpu = planned(target="cpu")
    assert foreign_libraries(cpu) == (left,)
    assert "foreign-libraries" in {finding.id for finding in run_preflight(cpu, environment).findings}
    assert foreign_libraries(planned(target="cpu", in_place=False)) == ()
    assert foreign_libraries(planned(target="rtx5070")) == ()
    with locked_folders(cpu, {}):
        assert left.exists()
    # The remedy.
    git(tree, "clean", "-qfdX", "torch/lib")
    assert (left.exists(), own.exists()) == (False, True)
    assert "foreign-libraries" not in {finding.id for finding in run_preflight(cpu, environment).findings}
