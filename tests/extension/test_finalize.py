"""A wheel of extensions is labelled and proved before it is handed over. Needs neither nvcc nor PyTorch."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from extension.compiled_modules import compiled, written_wheel
from extension.planning import plan
from torchwheel.errors import TorchwheelError
from torchwheel.extension.finalize import finalize_wheel
from torchwheel.extension.model import Extension
from torchwheel.extension.record import record_of
from wheel_samples import CUBIN, Entry, Samples, manifest_schema

MODULE = "kernels/_C.cpython-311-x86_64-linux-gnu.so"


def finalized(tmp_path: Path, architecture: int, *, skip_check: str = "") -> Path:
    """A wheel that is planned for sm_120 and has code for this architecture."""
    config = {"target": "rtx5070", **({"skip-check": skip_check} if skip_check else {})}
    made = plan(tmp_path, Extension(name="kernels._C", sources=("csrc/scale.cu",)), config=config)
    library = Samples().library(Entry(CUBIN, architecture))
    built = written_wheel(tmp_path / "built", {MODULE: library}, version="1.2", requires=())
    (tmp_path / "out").mkdir()
    out, record = tmp_path / "out", record_of(made)
    return out / finalize_wheel(record, made.project, built, out)


def test_the_tag_of_modules_for_all_pythons(tmp_path: Path) -> None:
    """The inner backend names the wheel for the Python that builds; setup.py files need not ask for another tag."""
    made = plan(
        tmp_path, Extension(name="kernels._C", sources=("csrc/op.cpp",), limited_api=True, cuda=False)
    )
    module = compiled(tmp_path, 'extern "C" void* PyInit__C() { return nullptr; }').read_bytes()
    built = written_wheel(
        tmp_path / "built",
        {"kernels/_C.abi3.so": module},
        version="1.2",
        requires=(),
        tag="cp311-cp311-linux_x86_64",
    )
    (tmp_path / "out").mkdir()
    name = finalize_wheel(record_of(made), made.project, built, tmp_path / "out")
    assert name == "kernels-1.2+cpu.torch2.14-cp310-abi3-linux_x86_64.whl"
    with zipfile.ZipFile(tmp_path / "out" / name) as archive:
        tags = archive.read("kernels-1.2+cpu.torch2.14.dist-info/WHEEL").decode()
    assert "Tag: cp310-abi3-linux_x86_64\n" in tags


def document_in(wheel: Path) -> dict[str, Any]:
    assert wheel.name == "kernels-1.2+cu130.sm120.torch2.14-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(wheel) as archive:
        document: dict[str, Any] = json.loads(
            archive.read("kernels-1.2+cu130.sm120.torch2.14.dist-info/torchwheel.json")
        )
    jsonschema.validate(document, manifest_schema(), cls=jsonschema.Draft202012Validator)
    return document


def test_a_wheel_with_the_planned_code_is_handed_over(tmp_path: Path) -> None:
    document = document_in(finalized(tmp_path, 120))
    assert document["wheel"]["version"] == "1.2+cu130.sm120.torch2.14"
    assert document["plan"]["skipped_checks"] == []


def test_a_wheel_with_other_code_is_not(tmp_path: Path) -> None:
    with pytest.raises(TorchwheelError) as caught:
        finalized(tmp_path, 90)
    assert [problem.id for problem in caught.value.problems] == [
        "missing-device-code",
        "unplanned-device-code",
    ]
    assert list((tmp_path / "out").iterdir()) == []


def test_metadata_that_was_returned_before_is_the_wheels_own(tmp_path: Path) -> None:
    made = plan(tmp_path, Extension(name="kernels._C", sources=("a.cpp",)), config={"target": "cpu"})
    built = written_wheel(tmp_path / "built", {}, version="1.2", requires=())
    prepared = tmp_path / "prepared"
    prepared.mkdir()
    (prepared / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: kernels\nVersion: 1.3\n", encoding="utf-8"
    )
    with pytest.raises(TorchwheelError) as caught:
        finalize_wheel(record_of(made), made.project, built, tmp_path / "out", prepared, editable=True)
    assert [problem.id for problem in caught.value.problems] == ["metadata-changed"]


def test_a_skipped_proof_is_recorded(tmp_path: Path) -> None:
    """Such a manifest once had no findings: it was written before the proof."""
    document = document_in(finalized(tmp_path, 90, skip_check="missing-device-code,unplanned-device-code"))
    assert document["plan"]["skipped_checks"] == ["missing-device-code", "unplanned-device-code"]
    assert [f["id"] for f in document["plan"]["findings"] if f["severity"] == "error"] == [
        "missing-device-code",
        "unplanned-device-code",
    ]
