"""``torchwheel diff``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from cli.running import Run
from wheel_samples import CUBIN, Entry, Samples, WheelRecipe

METADATA = "Metadata-Version: 2.1\nName: torch\nVersion: {version}\n"
OFFICIAL = f"{METADATA}Requires-Dist: nvidia-cublas==13.1\nRequires-Dist: sympy\n"
OWN = f"{METADATA}Requires-Dist: sympy>=1.13\n"


def manifest(version: str, flags: str, **more: str) -> bytes:
    """A build manifest with these CMake options, and a setting by which nothing of the wheel changes."""
    layers = [
        {"key": key, "value": value, "layer": "-C", "origin": ""}
        for key, value in (
            ("build-type", "Release"),
            ("define.USE_FLAGS", flags),
            ("jobs", flags),
            ("target", flags),
        )
    ]
    options = {"USE_FLAGS": flags, **more}
    document = {
        "schema": 1,
        "torchwheel": "0.1.0",
        "wheel": {"name": "torch", "version": version, "tags": ["cp311-cp311-linux_x86_64"]},
        "machine_code": [],
        "plan": {
            "target": ["rtx5070"],
            "profile": [],
            "source": {},
            "layers": layers,
            "options": {"requested": options, "effective": {}, "switched_off": []},
            "toolchain": {"cuda": "13.0.88", "cxx_compiler": f"GNU {flags}"},
        },
    }
    return json.dumps(document).encode()


def library(*numbers: int) -> bytes:
    return Samples().library(*(Entry(CUBIN, number) for number in numbers))


@pytest.fixture
def official(here: Path) -> Path:
    files = {
        "torch/lib/libtorch_cuda.so": library(90, 120),
        "torch/lib/libnvshmem.so": library(90),
        "torch/lib/libc10.so": Samples().elf({".comment": b"GCC: (GNU) 13.3.1\0"}),
        "torch/old.py": b"1",
        "torch/util.py": b"1",
    }
    recipe = WheelRecipe(version="2.14.1", cuda="12.9", metadata=OFFICIAL, files=files)
    return recipe.write(here)


def own(folder: Path, version: str = "2.14.1+cu130.sm120", flags: str = "1", **more: str) -> Path:
    files = {
        "torch/lib/libtorch_cuda.so": library(120),
        "torch/lib/libc10.so": Samples().elf({".comment": b"mold 2.37.1\0GCC: (Debian) 14.2.0\0"}),
        "torch/new.py": b"1",
        "torch/util.py": b"2",
        f"torch-{version}.dist-info/torchwheel.json": manifest(version, flags, **more),
    }
    folder.mkdir(exist_ok=True)
    return WheelRecipe(version=version, metadata=OWN, files=files).write(folder)


def test_the_official_wheel_and_ones_own(torchwheel: Run, here: Path, official: Path) -> None:
    wheel = own(here / "own")
    result = torchwheel("diff", official.name, wheel.relative_to(here))
    assert (result.status, result.err) == (0, "")
    lines = [" ".join(line.split()) for line in result.out.splitlines()]
    assert {
        "device code sm90 sm120 -> sm120",
        "C++ compiler GCC: (GNU) 13.3.1 -> GCC: (Debian) 14.2.0",
        "sympy any -> >=1.13",
        "456 B - torch/lib/libnvshmem.so: sm90",
        "changed 3 files: *.dist-info/METADATA, torch/util.py, torch/version.py",
    } <= set(lines)


def test_the_document_of_the_same(torchwheel: Run, here: Path, official: Path) -> None:
    document = torchwheel("diff", official, own(here), "--json").document("diff")
    assert (document["same"], document["settings"], document["options"]) == (False, None, None)
    assert document["headline"].startswith("device code sm90 sm120 -> sm120; CUDA 12.9 -> 13.0; ")
    libraries = {
        one["path"]: [
            side and [image["label"] for image in side["images"]] for side in (one["before"], one["after"])
        ]
        for one in document["libraries"]
    }
    assert libraries == {
        "torch/lib/libc10.so": [[], []],
        "torch/lib/libnvshmem.so": [["sm90"], None],
        "torch/lib/libtorch_cuda.so": [["sm90", "sm120"], ["sm120"]],
    }
    assert document["files"] == {
        "added": ["*.dist-info/torchwheel.json", "torch/new.py"],
        "removed": ["torch/old.py"],
        "changed": ["*.dist-info/METADATA", "torch/util.py", "torch/version.py"],
    }


def test_settings_and_options_of_two_builds(torchwheel: Run, here: Path) -> None:
    one, other = own(here / "one", flags="1"), own(here / "other", flags="2", USE_MORE="ON")
    document = torchwheel("diff", one, other, "--json").document("diff")
    assert changes(document["settings"]) == {"define.USE_FLAGS": ("1", "2")}
    assert changes(document["options"]) == {"USE_FLAGS": ("1", "2"), "USE_MORE": (None, "ON")}
    assert changes(document["compilers"]) == {"cxx_compiler": ("GNU 1", "GNU 2")}
    assert document["headline"].startswith("2 CMake options; 1 setting; 1 other file")


def changes(found: list[dict[str, Any]]) -> dict[str, tuple[str | None, str | None]]:
    return {one["name"]: (one["before"], one["after"]) for one in found}


def test_a_wheel_and_what_was_installed_of_it(torchwheel: Run, here: Path, official: Path) -> None:
    site = here / "site-packages"
    with ZipFile(official) as archive:
        archive.extractall(site)
    (site / "torch-2.14.1.dist-info" / "INSTALLER").write_text("pip", encoding="utf-8")
    document = torchwheel("diff", official, site / "torch", "--json").document("diff")
    assert (document["same"], document["after"]["kind"], document["names"]) == (True, "package", [])
    assert document["headline"] == "every file has the same content"


def test_what_is_no_wheel(torchwheel: Run, here: Path, official: Path) -> None:
    result = torchwheel("diff", official, here)
    assert (result.status, "[no-distribution-found]" in result.err) == (2, True)
    result = torchwheel("diff", official, "no.whl", "--json")
    assert (result.status, json.loads(result.out)["command"]) == (2, "diff")
