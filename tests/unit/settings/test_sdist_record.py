"""What an sdist remembers, and what is made of it where it is unpacked."""

from __future__ import annotations

from pathlib import Path

import pytest

from plan.fixtures import modern_tree, plan
from plan.planning import LINUX, Planner, ids, toolkit
from torchwheel.plan.build_plan import Plan
from torchwheel.reporting.errors import TorchwheelError
from torchwheel.settings import Layer, load_settings
from torchwheel.settings.project import SDIST_FILE, SdistRecord, read_sdist_record, settings_to_record

__all__ = ["modern_tree", "plan"]


def record_of(plan: Plan) -> SdistRecord:
    cuda = plan.toolkit.version if plan.toolkit else None
    return SdistRecord(str(plan.version), settings_to_record(plan.settings.entries.values(), cuda))


def unpacked(planner: Planner, record: SdistRecord) -> None:
    project = planner.folder / "projekt ü"
    project.mkdir(exist_ok=True)
    (project / SDIST_FILE).write_bytes(record.to_json())


@pytest.mark.parametrize(
    ("config", "environment", "settings"),
    [
        ({"target": "cpu"}, {}, {"target": "cpu"}),
        (
            {
                "target": "rtx5070,a100",
                "profile": "minimal",
                "enable": "distributed",
                "package-version": "2.14.1",
            },
            {"MAX_JOBS": "7", "USE_OPENMP": "0", "CFLAGS": "-O1", "CUDA_HOME": "/opt/cuda"},
            {
                "arch": "8.0;12.0",
                "cuda": "13.0",
                "define.USE_DISTRIBUTED": "true",
                "define.USE_OPENMP": "0",
                "profile": "minimal",
                "target": "rtx5070,a100",
                "package-version": "2.14.1",
            },
        ),
        (
            {"arch": "9.0+PTX", "build-type": "Debug", "env.HF_TOKEN": "secret", "define.X": "/home/me"},
            {"TORCHWHEEL_LOCAL_VERSION": "mine"},
            {"arch": "9.0+PTX", "build-type": "Debug", "cuda": "13.0", "local-version": "mine"},
        ),
        # It is in the sdist's own name.
        (
            {"target": "cpu"},
            {"TORCH_PACKAGE_NAME": "torch-x"},
            {"env.TORCH_PACKAGE_NAME": "torch-x", "target": "cpu"},
        ),
    ],
)
def test_what_decides_the_version_is_remembered_and_builds_it_again(
    config: dict[str, str], environment: dict[str, str], settings: dict[str, str], plan: Planner
) -> None:
    first = plan(config, environment=environment, toolkits=[toolkit("13.0")])
    record = record_of(first)
    assert record.settings == settings
    unpacked(plan, record)
    again = plan({}, toolkits=[toolkit("13.0"), toolkit("13.1")])
    assert record_of(again).settings == settings
    assert (again.version, again.architectures) == (first.version, first.architectures)
    assert not {"no-target", "version-is-not-the-sdists"} & set(ids(again))


def test_it_lies_over_the_project_and_below_what_is_asked_for(plan: Planner) -> None:
    unpacked(plan, SdistRecord("2.14.1+cpu", {"target": "cpu", "package-version": "2.14.1"}))
    pyproject = "[tool.torchwheel]\ntarget = 'rtx5070'\npackage-version = '9.9'\n"
    made = plan({}, pyproject=pyproject)
    assert str(made.version) == "2.14.1+cpu"
    target = made.settings.entries["target"]
    assert (target.layer, target.origin) == (Layer.PROJECT, "the sdist's target")
    other = plan({"target": "a100"}, pyproject=pyproject, toolkits=[toolkit("13.0")])
    assert str(other.version) == "2.14.1+cu130.sm80"
    assert ids(other)[0] == "version-is-not-the-sdists"


def test_without_a_label_any_target_may_be_chosen(plan: Planner) -> None:
    unpacked(plan, SdistRecord("2.14.1", {}))
    made = plan({"target": "cpu", "package-version": "2.14.1"})
    assert (str(made.version), ids(made)) == ("2.14.1+cpu", [])


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        b'{"version": 1, "settings": {}}',
        b'{"version": "1", "settings": []}',
        b'{"version": "1", "settings": {"target": 1}}',
        b'{"version": "1", "settings": {"cuda-path": "/evil"}}',
        b'{"version": "1", "settings": {"env.LD_PRELOAD": "/evil"}}',
        b'{"version": "1", "settings": {"define.CMAKE_C_COMPILER": "/evil"}}',
    ],
)
def test_a_record_that_is_none(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("", encoding="utf-8")
    (tmp_path / SDIST_FILE).write_bytes(content)
    with pytest.raises(TorchwheelError) as caught:
        load_settings(tmp_path, {}, {}, LINUX)
    assert [problem.id for problem in caught.value.problems] == ["malformed-sdist-record"]


def test_a_project_without_pyproject_remembers_too(tmp_path: Path) -> None:
    (tmp_path / SDIST_FILE).write_bytes(SdistRecord("1.2+cpu", {"target": "cpu"}).to_json())
    assert load_settings(tmp_path, {}, {}, LINUX).target == ("cpu",)


def test_other_folders_remember_nothing(tmp_path: Path) -> None:
    assert read_sdist_record(tmp_path) is None
