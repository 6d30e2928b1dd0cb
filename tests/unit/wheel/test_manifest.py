"""The build manifest: its shape, its bytes, and reading it back."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import torchwheel
from refusals import error_of
from torchwheel.wheel.contents import WheelContents, inspect_wheel
from torchwheel.wheel.finalize import manifest_document
from torchwheel.wheel.manifest import MANIFEST_NAME, as_written, manifest_bytes, read_manifest
from wheel_samples import add_members, manifest_schema

PLAN: dict[str, Any] = {
    "target": ["rtx5070"],
    "profile": [],
    "layers": [{"key": "target", "value": "rtx5070", "layer": "-C", "origin": "-C target=rtx5070"}],
    "toolchain": {"nvcc": "13.0.88", "cxx": "gcc 12.2.0", "ccache": None},
    "source": {"commit": "0123456789abcdef0123456789abcdef01234567"},
    "options": {"requested": {"USE_CUDA": "ON"}, "effective": {"USE_CUDA": "ON"}},
    "findings": [{"id": "jobs", "what": "8 jobs", "remedy": "-C jobs=N"}],
    "skipped_checks": [],
}

EXTENSIONS: dict[str, Any] = {
    **{key: value for key, value in PLAN.items() if key != "options"},
    "extensions": {
        "torch": {"version": "2.14.1+cu130", "cuda": "13.0"},
        "requires": ["torch>=2.10"],
        "modules": [
            {
                "name": "kernels._C",
                "file": "kernels/_C.abi3.so",
                "stable_abi": "2.10",
                "limited_api": True,
                "architectures": ["sm90a", "sm120"],
            }
        ],
    },
}


@pytest.fixture
def contents(recipe: Any, samples: Any, tmp_path: Path) -> WheelContents:
    library = samples.library(samples.Entry(2, 120), samples.Entry(2, 120), samples.Entry(1, 120))
    files = {"torch/lib/libtorch_cuda.so": library, "torch/_C.so": samples.library()}
    return inspect_wheel(recipe(files=files).write(tmp_path))


def test_document(contents: WheelContents) -> None:
    document = manifest_document(PLAN, contents, datetime(2024, 7, 1, 12, 30, 15, tzinfo=timezone.utc))
    image = {"relocatable": False}
    assert document == {
        "schema": 1,
        "torchwheel": torchwheel.__version__,
        "built": "2024-07-01T12:30:15+00:00",
        "wheel": {"name": "torch", "version": "2.14.1+cu130.sm120", "tags": ["cp311-cp311-linux_x86_64"]},
        "machine_code": [
            {
                "library": "torch/lib/libtorch_cuda.so",
                "images": [
                    {**image, "label": "ptx120", "kind": "ptx", "count": 1, "stored_size": 8},
                    {**image, "label": "sm120", "kind": "sass", "count": 2, "stored_size": 16},
                ],
            }
        ],
        "plan": PLAN,
    }
    jsonschema.validate(document, manifest_schema(), cls=jsonschema.Draft202012Validator)


def test_the_schema_itself_and_what_it_requires(contents: WheelContents) -> None:
    schema = manifest_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    document = manifest_document(PLAN, contents)
    validator = jsonschema.Draft202012Validator(schema)
    assert validator.is_valid(document)
    for key in document:
        assert not validator.is_valid({k: v for k, v in document.items() if k != key}), key
    for key in PLAN.keys() - {"options"}:
        less = {k: v for k, v in PLAN.items() if k != key}
        assert not validator.is_valid({**document, "plan": less}), key


def test_extensions(contents: WheelContents) -> None:
    validator = jsonschema.Draft202012Validator(manifest_schema())
    document = manifest_document(EXTENSIONS, contents)
    validator.validate(document)
    for key in EXTENSIONS["extensions"]:
        less = {k: v for k, v in EXTENSIONS["extensions"].items() if k != key}
        assert not validator.is_valid({**document, "plan": {**EXTENSIONS, "extensions": less}}), key
    (module,) = EXTENSIONS["extensions"]["modules"]
    for key in module:
        less = {k: v for k, v in module.items() if k != key}
        plan = {**EXTENSIONS, "extensions": {**EXTENSIONS["extensions"], "modules": [less]}}
        assert not validator.is_valid({**document, "plan": plan}), key


def test_bytes_are_canonical(contents: WheelContents) -> None:
    turned = dict(reversed(PLAN.items()))
    data = manifest_bytes(manifest_document(PLAN, contents))
    assert manifest_bytes(manifest_document(turned, contents)) == data
    assert data.endswith(b"}\n")
    document = json.loads(data)
    assert list(document) == sorted(document)
    assert "built" not in document
    assert document == manifest_document(PLAN, contents)


def test_it_is_read_back_from_the_wheel(contents: WheelContents) -> None:
    manifest = manifest_document(PLAN, contents)
    assert read_manifest(contents.path) is None
    add_members(contents.path, contents.path, {MANIFEST_NAME: manifest_bytes(manifest)}, environment={})
    assert read_manifest(contents.path) == manifest


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"{", "malformed-manifest"),
        (b"[]", "malformed-manifest"),
        (b'{"schema": 2}', "unknown-manifest-schema"),
    ],
    ids=["not JSON", "no schema", "newer"],
)
def test_manifests_that_cannot_be_read(recipe: Any, tmp_path: Path, data: bytes, problem: str) -> None:
    path = recipe(version="2.0").write(tmp_path)
    add_members(path, path, {MANIFEST_NAME: data}, environment={})
    error = error_of(read_manifest, path)
    origin = f"{path}: torch-2.0.dist-info/torchwheel.json"
    assert [(one.id, one.origin) for one in error.problems] == [(problem, origin)]


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("plan.toolchain.cuda", {"plan": {**EXTENSIONS, "toolchain": {"cuda": 13}}}),
        ("machine_code.images", {"machine_code": [{"library": "a.so", "images": ["sm120"]}]}),
        ("machine_code.images.count", {"machine_code": [{"library": "a.so", "images": [{"label": 120}]}]}),
    ],
)
def test_a_part_of_another_type(recipe: Any, tmp_path: Path, part: str, value: dict[str, Any]) -> None:
    path = recipe(version="2.0").write(tmp_path)
    document = {**manifest_document(EXTENSIONS, inspect_wheel(path)), **value}
    add_members(path, path, {MANIFEST_NAME: manifest_bytes(document)}, environment={})
    error = error_of(read_manifest, path)
    assert [problem.id for problem in error.problems] == ["malformed-manifest"]
    assert f" {part} " in error.problems[0].what


def test_the_name_of_a_folder_replaces_it_in_any_letters() -> None:
    part = {"path": "/home/jürgen/src", "flag": "-I/home/jürgen/include", "other": "/home/jürgens"}
    assert as_written(part, {"/home/jürgen": "~"}) == {**part, "path": "~/src", "flag": "-I~/include"}
