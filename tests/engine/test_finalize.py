"""A tree's wheel is proved against its plan before it is handed over. Needs neither nvcc nor PyTorch."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from plan.planning import Planner, toolkit
from torchwheel.engine.build import finalize_wheel
from torchwheel.errors import TorchwheelError
from torchwheel.tree.read import read_tree
from wheel_samples import CUBIN, Entry, Samples, WheelRecipe, manifest_schema

MINITORCH = Path(__file__).resolve().parents[2] / "examples" / "minitorch"
CONFIG = {"target": "rtx5070", "version": "2.14.1"}


def finalized(tmp_path: Path, architecture: int, *, skip_check: str = "") -> Path:
    """A wheel that is named for sm_120 and has code for this architecture."""
    (tmp_path / "project").mkdir()
    config = {**CONFIG, **({"skip-check": skip_check} if skip_check else {})}
    plan = Planner(read_tree(MINITORCH), tmp_path / "project")(config, toolkits=[toolkit("13.0")])
    assert str(plan.version) == "2.14.1+cu130.sm120"
    plan.folders.build.mkdir(parents=True)
    plan.folders.cmake_cache.write_text("CMAKE_GENERATOR:INTERNAL=Ninja\n", encoding="utf-8")
    library = Samples().library(Entry(CUBIN, architecture))
    built = WheelRecipe(files={"torch/lib/libtorch_cuda.so": library}).write(tmp_path)
    (tmp_path / "out").mkdir()
    return finalize_wheel(plan, built, tmp_path / "out", None, {}, editable=False)


def recorded_plan(wheel: Path) -> dict[str, Any]:
    with zipfile.ZipFile(wheel) as archive:
        document = json.loads(archive.read("torch-2.14.1+cu130.sm120.dist-info/torchwheel.json"))
    jsonschema.validate(document, manifest_schema(), cls=jsonschema.Draft202012Validator)
    plan: dict[str, Any] = document["plan"]
    return plan


def test_a_wheel_with_the_planned_code_is_handed_over(tmp_path: Path) -> None:
    plan = recorded_plan(finalized(tmp_path, 120))
    assert (plan["skipped_checks"], plan["toolchain"]["generator"]) == ([], "Ninja")


def test_a_wheel_with_other_code_is_not(tmp_path: Path) -> None:
    with pytest.raises(TorchwheelError) as caught:
        finalized(tmp_path, 90)
    assert [problem.id for problem in caught.value.problems] == [
        "missing-device-code",
        "unplanned-device-code",
    ]
    assert list((tmp_path / "out").iterdir()) == []


def test_a_skipped_proof_is_recorded(tmp_path: Path) -> None:
    plan = recorded_plan(finalized(tmp_path, 90, skip_check="missing-device-code,unplanned-device-code"))
    assert plan["skipped_checks"] == ["missing-device-code", "unplanned-device-code"]
    assert {f["id"] for f in plan["findings"]} >= {"missing-device-code", "unplanned-device-code"}
