"""A tree's wheel is proved against its plan before it is handed over. Needs neither nvcc nor PyTorch."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from places import MINITORCH
from plan.planning import Planner, toolkit
from put import put
from refusals import error_of, ids_of
from torchwheel.engine.tree_wheel import finalize_wheel
from torchwheel.host import this
from torchwheel.tree.source_tree import read_tree
from wheel_samples import CUBIN, Entry, Samples, WheelRecipe, manifest_schema

CONFIG = {"target": "rtx5070", "package-version": "2.14.1"}


def finalized(
    tmp_path: Path,
    architecture: int,
    given: dict[str, str] | None = None,
    *,
    skip_check: str = "",
    values: Mapping[str, str] | None = None,
    recipe: WheelRecipe | None = None,
    environment: dict[str, str] | None = None,
) -> Path:
    """A wheel that is named for sm_120 and has code for this architecture."""
    (tmp_path / "project").mkdir()
    compiler = {"define.CMAKE_C_COMPILER": str(tmp_path / "gcc"), "disable": "tests"}
    config = {**CONFIG, **compiler, **(given or {}), **({"skip-check": skip_check} if skip_check else {})}
    plan = Planner(read_tree(MINITORCH), tmp_path / "project", tmp_path / "cache")(
        config, toolkits=[toolkit("13.0")]
    )
    assert str(plan.version) == "2.14.1+cu130.sm120"
    plan.folders.build.mkdir(parents=True)
    declared = "".join(f"{name}:BOOL=ON\n" for name in values or ())
    cache = f"CMAKE_GENERATOR:INTERNAL=Ninja\nUSE_NCCL:INTERNAL=ON\n{declared}"
    plan.folders.cmake_cache.write_text(cache, encoding="utf-8")
    put(plan.folders.cmake_values, json.dumps({"USE_NCCL": "OFF"} | dict(values or {})))
    library = Samples().library(Entry(CUBIN, architecture))
    recipe = replace(recipe or WheelRecipe(), files={"torch/lib/libtorch_cuda.so": library})
    built = recipe.write(tmp_path)
    (tmp_path / "out").mkdir()
    return finalize_wheel(
        plan, built, tmp_path / "out", None, environment or {}, plan.findings, editable=False
    )


@pytest.mark.parametrize("way", ["HOME", "a link to it", "the account's"])
def test_the_manifest_holds_no_home_folder(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path
    if way == "a link to it":
        home = tmp_path / "link"
        home.symlink_to(tmp_path)
    elif way == "the account's":
        real = this.home_folder
        monkeypatch.setattr(this, "home_folder", lambda e: real(e) if e else str(tmp_path))
        home = tmp_path.with_name("elsewhere")
    wheel = finalized(tmp_path, 120, environment={"HOME" if os.name != "nt" else "USERPROFILE": str(home)})
    plan = recorded_plan(wheel)
    assert str(tmp_path) not in json.dumps(plan)
    assert plan["options"]["requested"]["CMAKE_C_COMPILER"] == "~/gcc"


def test_a_value_that_no_option_of_the_tree_has_is_not_recorded(tmp_path: Path) -> None:
    options = {"define.DEPLOYED_AT": "hunter2"}
    plan = recorded_plan(finalized(tmp_path, 120, options, values={"DEPLOYED_AT": "hunter2"}))
    assert "hunter2" not in json.dumps(plan)
    for values in (plan["options"]["requested"], plan["options"]["effective"]):
        assert values["DEPLOYED_AT"] == "(not recorded)"
    assert plan["options"]["requested"]["USE_CUDA"] == "ON"


def test_a_wheel_without_the_planned_build_tag_is_refused(tmp_path: Path) -> None:
    (problem,) = error_of(finalized, tmp_path, 120, {"wheel.build-tag": "7"}).problems
    assert (problem.id, "its build tag says none" in problem.what) == ("wheel-tag", True)


def test_what_cmake_switched_off_is_in_the_manifest(tmp_path: Path) -> None:
    options = {
        "USE_MPI": "OFF",
        "USE_NUMA": "0",
        "USE_OPENMP": "ON",
        "BUILD_TEST": "OFF",
        "USE_NATIVE_ARCH": "OFF",
    }
    wheel = finalized(tmp_path, 120, values=options)
    # What NCCL depends on is off. Tests were asked to be off, and code for the machine that builds is off by default.
    assert recorded_plan(wheel)["options"]["switched_off"] == ["USE_MPI", "USE_NUMA"]


def recorded_plan(wheel: Path) -> dict[str, Any]:
    with zipfile.ZipFile(wheel) as archive:
        document = json.loads(archive.read("torch-2.14.1+cu130.sm120.dist-info/torchwheel.json"))
    jsonschema.validate(document, manifest_schema(), cls=jsonschema.Draft202012Validator)
    plan: dict[str, Any] = document["plan"]
    return plan


def test_a_wheel_with_the_planned_code_is_handed_over(tmp_path: Path) -> None:
    plan = recorded_plan(finalized(tmp_path, 120))
    assert (plan["skipped_checks"], plan["toolchain"]["generator"]) == ([], "Ninja")


def test_it_gets_its_planned_name(tmp_path: Path) -> None:
    """Old backends keep the project's spelling."""
    spelled = WheelRecipe(name="Torch")
    assert (
        finalized(tmp_path, 120, recipe=spelled).name
        == "torch-2.14.1+cu130.sm120-cp311-cp311-linux_x86_64.whl"
    )


def test_a_build_tag_that_was_not_planned_is_an_error(tmp_path: Path) -> None:
    """The tree's own pyproject.toml may have one."""
    tagged = WheelRecipe(tag="7-cp311-cp311-linux_x86_64", wheel_tags=["cp311-cp311-linux_x86_64"])
    assert ids_of(finalized, tmp_path, 120, recipe=tagged) == ["wheel-tag"]


def test_a_wheel_with_other_code_is_not(tmp_path: Path) -> None:
    assert ids_of(finalized, tmp_path, 90) == [
        "missing-device-code",
        "unplanned-device-code",
    ]
    assert list((tmp_path / "out").iterdir()) == []


def test_a_skipped_proof_is_recorded_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = recorded_plan(finalized(tmp_path, 90, skip_check="missing-device-code,unplanned-device-code"))
    assert plan["skipped_checks"] == ["missing-device-code", "unplanned-device-code"]
    said = " ".join(capsys.readouterr().out.split())
    assert said.count("torchwheel: error (skipped by skip-check):") == 2
    assert {f["id"] for f in plan["findings"]} >= {"missing-device-code", "unplanned-device-code"}
