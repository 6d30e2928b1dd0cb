"""A wheel of extensions is labelled and proved before it is handed over. Needs neither nvcc nor PyTorch."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from extension.compiled_modules import written_wheel
from extension.planning import plan
from put import put
from refusals import error_of, ids_of
from torchwheel.extension.extension_plan import Extension
from torchwheel.extension.extension_wheel import finalize_wheel
from torchwheel.extension.wheel_record import record_of
from torchwheel.reporting.errors import Problem
from wheel_samples import CUBIN, Entry, Samples, manifest_schema

MODULE = "kernels/_C.cpython-311-x86_64-linux-gnu.so"


def finalized(tmp_path: Path, architecture: int, given: dict[str, str] | None = None, *requires: str) -> Path:
    """A wheel that is planned for sm_120 and has code for this architecture."""
    config = {"target": "rtx5070", **(given or {})}
    extension = Extension(name="kernels._C", sources=("csrc/scale.cu",))
    made = plan(tmp_path, extension, config=config, environment={"HOME": "/home/me"})
    library = Samples().library(Entry(CUBIN, architecture))
    built = written_wheel(tmp_path / "built", {MODULE: library}, version="1.2", requires=requires)
    (tmp_path / "out").mkdir(exist_ok=True)
    out, record = tmp_path / "out", record_of(made)
    return out / finalize_wheel(record, made.project, built, out)


def document_in(wheel: Path) -> dict[str, Any]:
    assert wheel.name == "kernels-1.2+cu130.sm120.torch2.14-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(wheel) as archive:
        document: dict[str, Any] = json.loads(
            archive.read("kernels-1.2+cu130.sm120.torch2.14.dist-info/torchwheel.json")
        )
    jsonschema.validate(document, manifest_schema(), cls=jsonschema.Draft202012Validator)
    return document


def test_a_wheel_with_other_code_is_not(tmp_path: Path) -> None:
    assert ids_of(finalized, tmp_path, 90) == [
        "missing-device-code",
        "unplanned-device-code",
    ]
    assert list((tmp_path / "out").iterdir()) == []


def test_metadata_that_was_returned_before_is_the_wheels_own(tmp_path: Path) -> None:
    made = plan(tmp_path, Extension(name="kernels._C", sources=("a.cpp",)), config={"target": "cpu"})
    built = written_wheel(tmp_path / "built", {}, version="1.2", requires=())
    prepared = tmp_path / "prepared"
    put(prepared / "METADATA", "Metadata-Version: 2.1\nName: kernels\nVersion: 1.3\n")
    assert ids_of(
        finalize_wheel, record_of(made), made.project, built, tmp_path / "out", prepared, editable=True
    ) == ["metadata-changed"]


def test_a_skipped_proof_is_recorded(tmp_path: Path) -> None:
    """Such a manifest once had no findings: it was written before the proof."""
    skipped = "missing-device-code,unplanned-device-code"
    document = document_in(finalized(tmp_path, 90, {"skip-check": skipped}))
    assert document["plan"]["skipped_checks"] == ["missing-device-code", "unplanned-device-code"]
    assert [f["id"] for f in document["plan"]["findings"] if f["severity"] == "error"] == [
        "missing-device-code",
        "unplanned-device-code",
    ]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, ""),
        ({"jobs": "1", "target": "sm120"}, ""),
        ({"define.AT": "/home/me/a"}, "the two differ in define.AT"),
        ({"define.FAST": "ON"}, "the two differ in define.FAST"),
        ({"wheel.exclude": "*.txt"}, "the two differ in wheel.exclude"),
        ({"build-type": "Debug"}, "the two differ in build-type"),
        ({"env.OWN": "one"}, ""),
        ({"env.OWN": "other"}, "the two differ in the value of a setting that no manifest tells"),
    ],
)
def test_the_wheel_of_another_build_is_not_replaced(tmp_path: Path, given: dict[str, str], why: str) -> None:
    label = {"local-version": "cu130.sm120.torch2.14", "env.OWN": "one"}
    wheel = finalized(tmp_path, 120, label)
    before = wheel.read_bytes()
    if not why:
        assert finalized(tmp_path, 120, {**label, **given}) == wheel
        return
    assert str(error_of(finalized, tmp_path, 120, {**label, **given})) == (
        Problem.of("output-of-another-build", wheel=wheel, why=why).render()
    )
    assert wheel.read_bytes() == before
    skipping = {"skip-check": "output-of-another-build"}
    for skipped in (["output-of-another-build"], []):
        document = document_in(finalized(tmp_path, 120, {**label, **given, **skipping}))
        assert document["plan"]["skipped_checks"] == skipped
