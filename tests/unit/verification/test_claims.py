"""What a wheel says of itself against what is in it."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from torchwheel.proof import Check, CheckOutcome
from torchwheel.verification.claims import label_against_requirements
from torchwheel.wheel.contents import inspect_wheel
from verification.fixtures import Checked
from wheel_samples import PTX, Entry, Samples, WheelRecipe

VERSION = "2.14.1+cu130.sm120"
SASS = Entry(kind=2, number=120)
LIBRARY = "torch/lib/libtorch_cuda.so"
CODE = {LIBRARY: Samples().library(SASS)}
MANIFEST = f"torch-{VERSION}.dist-info/torchwheel.json"
TAG = "cp311-cp311-linux_x86_64"


def manifest(**changes: Any) -> bytes:
    """The build manifest of a wheel with code for 12.0."""
    image = {"label": "sm120", "kind": "sass", "relocatable": False, "count": 1, "stored_size": 8}
    document = {
        "schema": 1,
        "torchwheel": "0.1.0",
        "wheel": {"name": "torch", "version": VERSION, "tags": [TAG]},
        "machine_code": [{"library": LIBRARY, "images": [image]}],
        "plan": {
            "target": ["rtx5070"],
            "profile": [],
            "source": {"commit": None},
            "options": {"requested": {"TORCH_CUDA_ARCH_LIST": "12.0", "USE_CUDA": "ON"}, "effective": {}},
            "toolchain": {"cuda": "13.0.2"},
            "skipped_checks": [],
        },
    }
    return json.dumps({**document, **changes}).encode()


def ids(check: Check) -> list[str]:
    return [problem.id for problem in check.problems]


def test_a_wheel_that_is_what_it_says(tmp_path: Path, checked: Checked) -> None:
    found = checked(WheelRecipe(files={**CODE, MANIFEST: manifest()}).write(tmp_path))
    assert {name: check.outcome for name, check in found.items()} == dict.fromkeys(
        ("record", "names", "manifest", "libraries"), CheckOutcome.PASSED
    )
    assert found["names"].figures == {"device_code": ["sm120"]}
    assert found["record"].figures["files"] == 7
    assert found["manifest"].figures == {"target": ["rtx5070"], "skipped_checks": []}


def altered(path: Path, changes: Mapping[str, bytes]) -> Path:
    """The wheel with other contents, and the RECORD of before."""
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in {**files, **changes}.items():
            archive.writestr(name, data)
    return path


def test_a_changed_file_is_named(tmp_path: Path, checked: Checked) -> None:
    wheel = altered(WheelRecipe(files=CODE).write(tmp_path), {"torch/__init__.py": b"import evil\n"})
    found = checked(wheel)
    assert ids(found["record"]) == ["record-mismatch"]
    assert "torch/__init__.py" in found["record"].problems[0].what
    assert found["record"].problems[0].origin == str(wheel)
    assert found["names"].outcome is CheckOutcome.PASSED


@pytest.mark.parametrize(
    ("recipe", "where"),
    [
        (WheelRecipe(metadata="Metadata-Version: 2.1\nName: torch\nVersion: 2.14.1\n"), "METADATA's Version"),
        (WheelRecipe(metadata="Metadata-Version: 2.1\nName: tork\nVersion: {version}\n"), "METADATA's Name"),
        (WheelRecipe(wheel_tags=["cp312-cp312-linux_x86_64"]), "its WHEEL file"),
        (
            WheelRecipe(files={"torch/version.py": b"__version__ = '2.14.0'\ncuda = '13.0'\n"}),
            "torch/version.py's __version__",
        ),
    ],
)
def test_two_places_that_differ(recipe: WheelRecipe, where: str, tmp_path: Path, checked: Checked) -> None:
    recipe.files = {**CODE, **recipe.files}
    found = checked(recipe.write(tmp_path))["names"]
    assert ids(found) == ["names-differ"]
    assert found.problems[0].what.startswith(f"{where} says ")


@pytest.mark.parametrize(
    ("version", "code", "cuda", "parts"),
    [
        ("2.14.1+cu130.sm90", [SASS], "13.0", "sm90"),
        ("2.14.1+cu128.sm120", [SASS], "13.0", "cu128"),
        ("2.14.1+cpu", [SASS], None, "cpu"),
        ("2.14.1+cu130.ptx120", [SASS], "13.0", "ptx120"),
        ("2.14.1+cu130.h100", [SASS], "13.0", "h100"),
        ("2.14.1+cu130.sm120", [], "13.0", "cu130, sm120"),
        ("2.14.1+cu130", [SASS], "13.0", ""),
        ("2.14.1+cu130.sm120.minimal", [SASS], "13.0", ""),
        ("2.14.1+cu130.ptx90", [Entry(kind=PTX, number=90)], "13.0", ""),
        ("2.14.1", [SASS], "13.0", ""),
        ("2.14.1", [], None, ""),
        ("2.14.1+cpu", [], None, ""),
    ],
)
def test_a_label_is_proved_by_the_machine_code(
    version: str, code: list[Entry], cuda: str | None, parts: str, tmp_path: Path, checked: Checked
) -> None:
    files = {LIBRARY: Samples().library(*code)}
    check = checked(WheelRecipe(version=version, cuda=cuda, files=files).write(tmp_path))["names"]
    assert ids(check) == (["label-not-proved"] if parts else [])
    assert not parts or f"says {parts}," in check.problems[0].what


@pytest.mark.parametrize(
    ("label", "amd", "parts", "outcome"),
    [
        ("rocm6.4", b"", "", CheckOutcome.PASSED),
        ("rocm6.4", b"code", "", CheckOutcome.PASSED),
        ("rocm6.4.gfx942", b"code", "", CheckOutcome.NOT_TRIED),
        ("rocm6.4.gfx942", b"", "gfx942", CheckOutcome.FAILED),
        ("rocm7.0", b"code", "rocm7.0", CheckOutcome.FAILED),
    ],
)
def test_the_label_of_a_build_for_rocm(
    label: str, amd: bytes, parts: str, outcome: CheckOutcome, tmp_path: Path, checked: Checked
) -> None:
    version = f"2.9.0+{label}"
    text = f"__version__ = '{version}'\ncuda = None\nhip = '6.4.43482-0f2d60242'\n"
    library = Samples().elf({".text": b"code", **({".hip_fatbin": amd} if amd else {})})
    files = {LIBRARY: library, "torch/version.py": text.encode()}
    check = checked(WheelRecipe(version=version, cuda=None, files=files).write(tmp_path))["names"]
    assert (check.outcome, ids(check)) == (outcome, ["label-not-proved"] if parts else [])
    assert parts or ("AMD code" in check.said) == bool(amd)
    assert not parts or f"says {parts}," in check.problems[0].what


def test_a_foreign_label_that_nothing_contradicts(tmp_path: Path, checked: Checked) -> None:
    """As triton or apex have it: a build with CUDA whose code is compiled where it runs."""
    files = {"kern/_C.so": Samples().library(), "torch/__init__.py": None, "torch/version.py": None}
    metadata = "Metadata-Version: 2.1\nName: kern\nVersion: {version}\n"
    recipe = WheelRecipe(name="kern", version="1.0+cu130", metadata=metadata, files=files)
    assert ids(checked(recipe.write(tmp_path))["names"]) == []


@pytest.mark.parametrize(
    ("label", "requires", "parts"),
    [
        ("torch2.13", "torch<2.15,>=2.14", "torch2.13"),
        ("pt28cu128", "torch==2.9.*", "pt28"),
        ("torch2.13", "torch==2.14.1", "torch2.13"),
        ("torch2.16.dev20261101", "torch==2.16.0.dev20261101", ""),
        ("torch2.14", "torch<2.15,>=2.14", ""),
        ("torch2.13", "torch>=2.10", ""),
        ("pt28", "torch<2.9,>=2.8", ""),
        ("torch2", "torch>=2.10", ""),
        ("torch2.13", "torch", ""),
        ("torch2.13", "Torch[x] >=2.14; extra == 'gpu'", "torch2.13"),
        ("torch2.13", "not a requirement!", ""),
    ],
)
def test_a_label_and_the_requirements_name_the_same_torch(
    label: str, requires: str, parts: str, tmp_path: Path
) -> None:
    metadata = f"Metadata-Version: 2.1\nName: torch\nVersion: {{version}}\nRequires-Dist: {requires}\n"
    contents = inspect_wheel(WheelRecipe(version=f"1.0+{label}", metadata=metadata).write(tmp_path))
    problems = list(label_against_requirements(contents))
    assert [problem.id for problem in problems] == (["label-not-proved"] if parts else [])
    assert not parts or f"says {parts}," in problems[0].what


def test_a_wheel_without_a_label_may_have_one_in_torch_version(tmp_path: Path, checked: Checked) -> None:
    files = {**CODE, "torch/version.py": b"__version__ = '2.14.1+cu130'\ncuda = '13.0'\n"}
    assert ids(checked(WheelRecipe(version="2.14.1", files=files).write(tmp_path))["names"]) == []


def test_without_a_manifest_it_is_said_that_there_is_no_plan(tmp_path: Path, checked: Checked) -> None:
    check = checked(WheelRecipe(files=CODE).write(tmp_path))["manifest"]
    assert (check.outcome, check.problems) == (CheckOutcome.NOT_TRIED, ())


@pytest.mark.parametrize(
    ("changes", "code", "expected"),
    [
        ({"wheel": {"name": "torch", "version": "2.14.0", "tags": [TAG]}}, CODE, ["manifest-mismatch"]),
        ({"machine_code": []}, CODE, ["manifest-mismatch"]),
        (
            {},
            {LIBRARY: Samples().library(SASS, Entry(kind=2, number=90))},
            ["manifest-mismatch", "unplanned-device-code"],
        ),
        ({}, {LIBRARY: Samples().library(SASS, SASS)}, ["manifest-mismatch"]),
        ({"machine_code": []}, {LIBRARY: Samples().library()}, ["no-device-code"]),
        # One that says for which GPU, and not with which options.
        (
            {"machine_code": [], "plan": {"target": ["rtx5070"], "profile": []}},
            {LIBRARY: Samples().library()},
            ["no-device-code"],
        ),
    ],
)
def test_a_wheel_against_its_manifest(
    changes: dict[str, Any], code: Mapping[str, bytes], expected: list[str], tmp_path: Path, checked: Checked
) -> None:
    check = checked(WheelRecipe(files={**code, MANIFEST: manifest(**changes)}).write(tmp_path))["manifest"]
    assert (ids(check), {problem.status for problem in check.problems}) == (expected, {3})


def test_what_was_skipped_when_it_was_built_is_said(tmp_path: Path, checked: Checked) -> None:
    document = json.loads(manifest(machine_code=[]))
    document["plan"]["skipped_checks"] = ["no-device-code"]
    document["wheel"]["version"] = "2.14.1"
    name = MANIFEST.replace(VERSION, "2.14.1")
    files = {LIBRARY: Samples().library(), name: json.dumps(document).encode()}
    found = checked(WheelRecipe(version="2.14.1", files=files).write(tmp_path))["manifest"]
    assert (ids(found), "no-device-code" in found.said) == ([], True)


@pytest.mark.parametrize(
    ("tag", "wrong"),
    [
        ("cp311-cp311-manylinux_2_28_x86_64", []),
        ("cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64", []),
        ("cp311-cp311-musllinux_1_2_x86_64", []),
        ("cp311-cp311-manylinux_2_28_aarch64", ["manifest-mismatch"]),
        ("cp312-cp312-manylinux_2_28_x86_64", ["manifest-mismatch"]),
    ],
)
def test_a_wheel_that_auditwheel_repaired_is_the_same(
    tag: str, wrong: list[str], tmp_path: Path, checked: Checked
) -> None:
    tags = [f"cp{tag[2:5]}-cp{tag[2:5]}-{one}" for one in tag.split("-")[2].split(".")]
    recipe = WheelRecipe(tag=tag, wheel_tags=tags, files={**CODE, MANIFEST: manifest()})
    found = checked(recipe.write(tmp_path))
    assert (ids(found["names"]), ids(found["manifest"])) == ([], wrong)
