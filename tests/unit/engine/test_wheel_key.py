"""The wheel store's key: what makes another wheel makes another key."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from backend.builds import make_tree
from torchwheel.engine import relevant_environment
from torchwheel.engine import tree_wheel as module
from torchwheel.engine.packing import packaging_variables
from torchwheel.engine.relevant_environment import environment_digest, searched_digest
from torchwheel.engine.tree_wheel import wheel_key
from torchwheel.plan.build_plan import Plan
from torchwheel.plan.make import make_plan
from torchwheel.survey import BuildRequest, survey


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"TORCHWHEEL_CACHE_DIR": str(tmp_path / "cache"), "PATH": "/usr/bin:/bin"}


def planned(tmp_path: Path, environment: dict[str, str], generation: str) -> Plan:
    tree = tmp_path / "tree"
    if not tree.exists():
        make_tree(generation, tree)
    config = {"target": "cpu", "package-version": "2.14.1", "build-env": "current"}
    return make_plan(survey(BuildRequest(tree, config, environment)))


@pytest.fixture(params=["setup.py", "scikit-build-core"])
def plan(request: pytest.FixtureRequest, tmp_path: Path, environment: dict[str, str]) -> Plan:
    """A plan whose folders are as a build leaves them."""
    plan = planned(tmp_path, environment, request.param)
    folders = plan.folders
    folders.build.mkdir(parents=True)
    folders.stage_state.write_text('{"setup.py": [1, 2, 3, 4, 5, 6, 7, 8, 9]}', encoding="utf-8")
    for file in (folders.cmake_cache, folders.build / "build.ninja"):
        file.touch()
    read(plan, {})
    folders.cmake_values.write_text("{}", encoding="utf-8")
    (folders.root / "configured.json").write_text("{}", encoding="utf-8")
    with packaging_variables(plan):
        pass
    return plan


def read(plan: Plan, inputs: dict[str, list[object]]) -> None:
    record = {"inputs": inputs, "variables": "", "named": {}, "indirect": False}
    (plan.folders.build / "made-from.json").write_text(json.dumps(record), encoding="utf-8")


def key_of(plan: Plan, environment: dict[str, str]) -> str | None:
    return wheel_key(plan, (), environment, environment_digest(plan, environment))


def write(name: str, text: str) -> Callable[[Plan], object]:
    return lambda plan: (plan.folders.root / name).write_text(text, encoding="utf-8")


CHANGES: dict[str, Callable[[Plan], object]] = {
    "a source": write("stage.json", '{"setup.py": [1, 2, 3, 40, 5, 6, 7, 8, 9]}'),
    "a CMake file": write("configured.json", '{"files": {}}'),
    "a header of the system": lambda plan: read(plan, {"/a.h": [1, 2, 3, ""]}),
    "a damaged record": lambda plan: (plan.folders.build / "made-from.json").write_text("[1]"),
    "ninja's commands": lambda plan: (plan.folders.build / "build.ninja").write_text("rule"),
    "CMakeCache.txt is missing": lambda plan: plan.folders.cmake_cache.unlink(),
    "CMake's values are missing": lambda plan: plan.folders.cmake_values.unlink(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_wheel_is_made_of_makes_its_key(plan: Plan, environment: dict[str, str], change: str) -> None:
    before = key_of(plan, environment)
    assert before == key_of(plan, environment) is not None
    CHANGES[change](plan)
    assert key_of(plan, environment) != before


def test_a_setup_py_tree_whose_packing_did_not_end_has_no_key(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    plan = planned(tmp_path, environment, "setup.py")
    plan.folders.build.mkdir(parents=True)
    plan.folders.cmake_cache.touch()
    assert key_of(plan, environment) is None


def test_what_is_asked_for_and_what_is_installed_count(
    plan: Plan, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = key_of(plan, environment)
    assert before is not None
    assert key_of(replace(plan, findings=()), environment) == before
    others = [
        key_of(plan, environment | {"SOURCE_DATE_EPOCH": "1"}),
        key_of(plan, environment | {"A_NAME_THAT_NO_FILE_SPELLS": "/opt"}),
        key_of(replace(plan, inner_config_settings={"--build-option": ["x"]}), environment),
    ]
    monkeypatch.setattr(module, "_installed_packages", lambda _: ["setuptools 1"])
    others.append(key_of(plan, environment))
    monkeypatch.setattr(module, "__version__", "0")
    others.append(key_of(plan, environment))
    assert len({before, *others}) == 1 + len(others)


SAME = {
    "SHLVL": "2",
    "GITHUB_SHA": "3",
    "USER": "another",
    "OLDPWD": "/",
    "TERM_PROGRAM": "x",
    "PYTHONPATH": str(Path(tempfile.gettempdir(), "pip-build-env-x", "site")),
    "PIP_BUILD_TRACKER": "/tmp/x",
    "MAX_JOBS": "3",
    "CCACHE_DIR": "/x",
    "TORCHWHEEL_JOBS": "2",
    "PATH": "/other",
    "USE_NUMA": "0",
}
OTHER = {"ONEDNN_ROOT": "/x", "HOME": "/x", "MY_HOME": "/x"}


@pytest.mark.parametrize(("variables", "counts"), [(SAME, False), (OTHER, True)])
def test_every_variable_counts_but_those_of_the_list(
    variables: dict[str, str], counts: bool, tmp_path: Path, environment: dict[str, str]
) -> None:
    plan = planned(tmp_path, environment, "scikit-build-core")
    before = environment_digest(plan, environment)
    for name, value in variables.items():
        assert (environment_digest(plan, environment | {name: value}) != before) is counts, name


def test_a_variable_of_a_ci_service_counts_where_a_script_names_it(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    plan = planned(tmp_path, environment, "setup.py")
    plan.folders.source.mkdir(parents=True)

    def digests(file: str, text: str) -> set[str]:
        (plan.folders.source / file).parent.mkdir(exist_ok=True)
        (plan.folders.source / file).write_text(text, encoding="utf-8")
        plan.folders.stage_state.write_text(json.dumps({file: [len(text)]}), encoding="utf-8")
        return {environment_digest(plan, environment | {"GITHUB_SHA": value}) for value in "12"}

    assert len(digests("tools/write_commit.py", 'print(os.environ["GITHUB_SHA"])')) == 2
    assert len(digests("CMakeLists.txt", 'message("$ENV{GITHUB_SHA}")')) == 2
    assert len(digests(".github/stats.py", 'os.environ["GITHUB_SHA"]')) == 1
    assert len(digests("CMakeLists.txt", "GITHUB_SHAPE")) == 1


def test_a_package_that_comes_or_goes_where_cmake_searches_counts(
    tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The test's own folder is not one of a front end.
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    plan = planned(tmp_path, environment, "scikit-build-core")
    prefix, own = tmp_path / "prefix", tmp_path / "pip-build-env-1" / "overlay" / "bin"
    for folder in (prefix / "bin", prefix / "include", prefix / "lib" / "cmake", own):
        folder.mkdir(parents=True)
    path = os.pathsep.join([str(own), str(prefix / "bin"), environment["PATH"]])
    environment = {**environment, "PATH": path}
    before = searched_digest(plan, environment)
    (own / "cmake").touch()
    assert searched_digest(plan, environment) == before
    seen = {before}
    for name in ("bin/program", "include/numa.h", "lib/cmake/NUMA"):
        (prefix / name).touch()
        seen.add(searched_digest(plan, environment))
    assert len(seen) == 4


def test_each_group_of_irrelevant_variables_says_why() -> None:
    file = Path(relevant_environment.__file__).with_name("irrelevant_variables.toml")
    groups = relevant_environment.shipped_toml(file)["group"]
    names = [name for group in groups for name in group["names"]]
    assert all(group["reason"] for group in groups)
    assert len(names) == len(set(names))


def test_modules_by_pythonpath_count_but_for_the_frontend_s(
    tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A setup.py may import them."""
    monkeypatch.setattr(relevant_environment, "is_of_isolated", lambda folder: "pip-build-env" in folder)
    plan = planned(tmp_path, environment, "setup.py")
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        (folder / "helper.py").write_text(folder.name, encoding="utf-8")

    def named(*folders: Path | str) -> str:
        return environment_digest(plan, {**environment, "PYTHONPATH": os.pathsep.join(map(str, folders))})

    isolated = "/tmp/pip-build-env-x/site"
    assert named(isolated) == named() == environment_digest(plan, environment)
    before = named(one, other)
    assert len({before, named(other, one), named(one), named(other), named()}) == 5
    (one / "__pycache__").mkdir()
    assert named(isolated, one, other) == before
    (one / "helper.py").write_text("another", encoding="utf-8")
    assert named(one, other) != before
