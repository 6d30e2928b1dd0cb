"""The finished wheel that stays in a build's folder, and what another build begins for."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from backend.builds import make_tree
from torchwheel._files import atomic_copy
from torchwheel.engine import finished
from torchwheel.engine.finished import finished_folder, give, give_again, keeps_finished, wheel_inputs
from torchwheel.engine.packing import packaging
from torchwheel.engine.staging import environment_digest
from torchwheel.errors import TorchwheelError
from torchwheel.plan.make import make_plan
from torchwheel.plan.model import Plan
from torchwheel.survey import BuildRequest, survey

CONTENT = b"the wheel" * 1000
SAID = "torchwheel: nothing has changed since {} was built and proved: it is handed over again\n"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"TORCHWHEEL_CACHE_DIR": str(tmp_path / "cache"), "PATH": "/usr/bin:/bin"}


def planned(tmp_path: Path, environment: dict[str, str], generation: str = "setup.py") -> Plan:
    tree = tmp_path / "tree"
    if not tree.exists():
        make_tree(generation, tree)
    config = {"target": "cpu", "version": "2.14.1", "build-env": "current"}
    return make_plan(survey(BuildRequest(tree, config, environment)))


@pytest.fixture
def plan(tmp_path: Path, environment: dict[str, str]) -> Plan:
    """A plan whose folder is as a build leaves it."""
    plan = planned(tmp_path, environment)
    folders = plan.folders
    folders.build.mkdir(parents=True)
    folders.stage_state.write_text('{"setup.py": [1, 2, 3, 4, 5, 6, 7, 8, 9]}', encoding="utf-8")
    for file in (folders.cmake_cache, folders.build / "build.ninja", folders.build / "made-from.json"):
        file.touch()
    (folders.root / "configured.json").write_text("{}", encoding="utf-8")
    with packaging(plan):
        pass
    finished_folder(plan).mkdir()
    (finished_folder(plan) / plan.wheel_name).write_bytes(CONTENT)
    return plan


def given(plan: Plan, folder: Path, environment: dict[str, str]) -> None:
    folder.mkdir(exist_ok=True)
    wheel = give(
        plan, finished_folder(plan) / plan.wheel_name, folder, wheel_inputs(plan, (), None, environment)
    )
    assert (wheel, wheel.read_bytes()) == (folder / plan.wheel_name, CONTENT)


def test_while_nothing_has_changed_the_wheel_is_handed_over_again(
    plan: Plan, tmp_path: Path, environment: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    given(plan, tmp_path / "one", environment)
    for name in ("two", "three", "three"):
        (tmp_path / name).mkdir(exist_ok=True)
        wheel = give_again(plan, tmp_path / name, wheel_inputs(plan, (), None, environment))
        assert wheel == tmp_path / name / plan.wheel_name
        assert ([one.name for one in (tmp_path / name).iterdir()], wheel.read_bytes()) == (
            [plan.wheel_name],
            CONTENT,
        )
    assert capsys.readouterr().out == 3 * SAID.format(plan.wheel_name)


def write(name: str, text: str) -> Callable[[Plan], object]:
    return lambda plan: (plan.folders.root / name).write_text(text, encoding="utf-8")


CHANGES: dict[str, Callable[[Plan], object]] = {
    "a source": write("stage.json", '{"setup.py": [1, 2, 3, 40, 5, 6, 7, 8, 9]}'),
    "a CMake file": write("configured.json", '{"files": {}}'),
    "a header of the system": write("source/build/made-from.json", '{"/usr/include/a.h": [1, 2, 3, ""]}'),
    "what ninja builds": write("source/build/build.ninja", "rule"),
    "CMakeCache.txt is gone": lambda plan: plan.folders.cmake_cache.unlink(),
    "packing began and did not end": lambda plan: (plan.folders.build / "torchwheel-packed.txt").unlink(),
    "the wheel is damaged": lambda plan: (finished_folder(plan) / plan.wheel_name).write_bytes(CONTENT[:-1]),
    "the wheel is gone": lambda plan: (finished_folder(plan) / plan.wheel_name).unlink(),
    "the record is damaged": write("finished.json", "{"),
    "another build began": lambda plan: give_again(plan, plan.folders.root, None),
}


@pytest.mark.parametrize("change", CHANGES)
def test_for_any_change_a_build_begins(
    plan: Plan, tmp_path: Path, environment: dict[str, str], change: str
) -> None:
    given(plan, tmp_path / "one", environment)
    CHANGES[change](plan)
    (tmp_path / "two").mkdir()
    assert give_again(plan, tmp_path / "two", wheel_inputs(plan, (), None, environment)) is None
    # And it stays so, also if that build is killed at once.
    assert not (plan.folders.root / "finished.json").exists()
    assert not list((tmp_path / "two").iterdir())


def test_what_is_asked_for_and_what_is_installed_count(
    plan: Plan, tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = wheel_inputs(plan, (), None, environment)
    assert before is not None
    assert wheel_inputs(replace(plan, findings=()), (), None, environment) == before
    others = [
        wheel_inputs(plan, (), b"Name: torch", environment),
        wheel_inputs(plan, (), None, environment | {"SOURCE_DATE_EPOCH": "1"}),
        wheel_inputs(plan, (), None, environment | {"OpenBLAS_ROOT": "/opt"}),
        wheel_inputs(replace(plan, inner_config_settings={"--build-option": ["x"]}), (), None, environment),
    ]
    monkeypatch.setattr(finished, "_packages", lambda: ["setuptools 1"])
    others.append(wheel_inputs(plan, (), None, environment))
    monkeypatch.setattr(finished, "__version__", "0")
    others.append(wheel_inputs(plan, (), None, environment))
    assert len({before, *others}) == 1 + len(others)


@pytest.mark.parametrize("module", ["setup.py", "tools/build_pytorch_libs.py", "tools/setup_helpers/env.py"])
def test_a_variable_that_only_setup_py_reads_counts(
    tmp_path: Path, environment: dict[str, str], module: str
) -> None:
    """As a fork's does."""
    tree = tmp_path / "tree"
    make_tree("setup.py", tree)
    (tree / module).write_text(
        (tree / module).read_text("utf-8") + "os.getenv('FORK_EXTRAS', os.getenv('PYTHONPATH'))\n", "utf-8"
    )
    plan = planned(tmp_path, environment)
    before, *others = (
        environment_digest(plan, environment | more)
        for more in ({}, {"UNREAD": "1", "PYTHONPATH": "/pip"}, {"FORK_EXTRAS": "1"}, {"FORK_EXTRAS": "2"})
    )
    assert before == others[0]
    assert len({before, *others}) == 3


def test_a_kill_between_the_record_and_the_wheel_costs_no_build(
    plan: Plan, tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    (tmp_path / "one").mkdir()
    monkeypatch.setattr(finished, "atomic_copy", killed)
    with pytest.raises(KeyboardInterrupt):
        given(plan, tmp_path / "one", environment)
    monkeypatch.setattr(finished, "atomic_copy", atomic_copy)
    assert not list((tmp_path / "one").iterdir())
    assert give_again(plan, tmp_path / "one", wheel_inputs(plan, (), None, environment))


def test_a_full_disk_is_no_reason_to_build_again(
    plan: Plan, tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "one").mkdir()
    monkeypatch.setattr(finished, "atomic_copy", full)
    with pytest.raises(TorchwheelError) as refused:
        given(plan, tmp_path / "one", environment)
    assert [one.id for one in refused.value.problems] == ["disk-full"]
    assert not list((tmp_path / "one").iterdir())
    monkeypatch.undo()
    assert give_again(plan, tmp_path / "one", wheel_inputs(plan, (), None, environment))


def test_of_what_is_not_known_nothing_is_remembered(
    plan: Plan, tmp_path: Path, environment: dict[str, str]
) -> None:
    (plan.folders.build / "build.ninja").unlink()
    given(plan, tmp_path / "one", environment)
    assert not (plan.folders.root / "finished.json").exists()


def test_only_a_tree_that_packs_its_own_folder_keeps_it(
    plan: Plan, tmp_path: Path, environment: dict[str, str]
) -> None:
    own = replace(plan, folders=replace(plan.folders, source=plan.tree.root))
    other = planned(tmp_path / "other", environment, "scikit-build-core")
    assert [keeps_finished(one) for one in (plan, own, other)] == [True, False, False]
    assert wheel_inputs(own, (), None, environment) is None


def test_the_record_is_of_the_wheel_that_is_kept(
    plan: Plan, tmp_path: Path, environment: dict[str, str]
) -> None:
    given(plan, tmp_path / "one", environment)
    record = json.loads((plan.folders.root / "finished.json").read_text(encoding="utf-8"))
    assert sorted(record) == ["inputs", "sha256"]
    # What the user does with the wheel is the user's.
    (tmp_path / "one" / plan.wheel_name).write_bytes(b"")
    assert give_again(plan, tmp_path / "one", wheel_inputs(plan, (), None, environment))
    assert (tmp_path / "one" / plan.wheel_name).read_bytes() == CONTENT
