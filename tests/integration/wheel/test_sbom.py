"""The bill of materials in a wheel, against CycloneDX's own schema."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

from torchwheel.toolkit.cuda_toolkit import ToolkitPackage
from torchwheel.tree.source_files import VendoredLibrary
from torchwheel.wheel.contents import inspect_wheel
from torchwheel.wheel.sbom import sbom_bytes
from wheel_samples import WheelRecipe

COMMIT = "0123456789abcdef0123456789abcdef01234567"
PLAN = {
    "source": {
        "version": "2.14.1a0",
        "commit": COMMIT,
        "release_tag": "v2.14.1",
        "dirty": False,
        "untracked": 0,
    },
    "toolchain": {
        "python": "3.11.7",
        "cmake": "3.31.6",
        "generator": "Ninja",
        "tree_backend": "scikit_build_core.build",
        "cxx_compiler": "GNU 14.2.0",
        "cuda_compiler": "NVIDIA 13.0.88",
        "cuda": "13.0.88",
    },
}
TOOLKIT = (
    ToolkitPackage("cuda-toolkit", "13.0.2", False),
    ToolkitPackage("nvidia-cuda-nvcc", "13.0.88", True),
)


def library(url: str = "", licence: str | None = None, version: str | None = None) -> VendoredLibrary:
    return VendoredLibrary("third_party/fmt", "fmt", version, COMMIT, url, licence)


def sbom(
    tmp_path: Path,
    *libraries: VendoredLibrary,
    plan: Any = PLAN,
    generator: str = "scikit-build-core 1.0.3",
    licence: str = "",
    built: datetime | None = None,
) -> dict[str, Any]:
    """The document, after CycloneDX's schema had its say, with the package URLs that are no such ones."""
    name = "torch-2.14.1+cu130.sm120.dist-info"
    files = {
        f"{name}/METADATA": f"Metadata-Version: 2.4\nName: torch\nVersion: 2.14.1+cu130.sm120\n{licence}".encode(),
        f"{name}/WHEEL": f"Wheel-Version: 1.0\nGenerator: {generator}\nTag: cp311-cp311-linux_x86_64\n".encode(),
    }
    contents = inspect_wheel(WheelRecipe(files=files).write(tmp_path))
    data = sbom_bytes(contents, plan, libraries, TOOLKIT, built)
    assert data == sbom_bytes(contents, plan, libraries, TOOLKIT, built)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(data.decode()) is None
    document: dict[str, Any] = json.loads(data)
    for component in (document["metadata"]["component"], *document["components"]):
        if "purl" in component:
            assert PackageURL.from_string(component["purl"]).to_string() == component["purl"]
    return document


def test_what_is_in_the_wheel_and_what_made_it(tmp_path: Path) -> None:
    document = sbom(tmp_path, library("https://github.com/Fmtlib/fmt.git", "MIT", "11.0.2"))
    wheel = document["metadata"]["component"]
    assert (wheel["name"], wheel["version"]) == ("torch", "2.14.1+cu130.sm120")
    assert wheel["pedigree"]["commits"] == [{"uid": COMMIT}]
    purls = {one["name"]: (one["version"], one.get("purl")) for one in document["components"]}
    assert purls == {
        "cuda-toolkit": ("13.0.2", None),
        "fmt": ("11.0.2", f"pkg:github/fmtlib/fmt@{COMMIT}"),
        "nvidia-cuda-nvcc": ("13.0.88", "pkg:pypi/nvidia-cuda-nvcc@13.0.88"),
    }
    tools = {one["name"]: one.get("version") for one in document["metadata"]["tools"]["components"]}
    assert tools.pop("torchwheel")
    assert tools == {
        "scikit-build-core": "1.0.3",
        "python": "3.11.7",
        "cmake": "3.31.6",
        "Ninja": None,
        "GNU": "14.2.0",
        "NVIDIA": "13.0.88",
    }


def test_an_extension_names_its_torch(tmp_path: Path) -> None:
    plan = {
        "toolchain": {"python": "3.11.7", "cxx_compiler": "gcc 14.2", "cuda": "13.0.88"},
        "source": {"commit": None, "dirty": None},
        "extensions": {"torch": {"version": "2.14.1+cu130"}},
    }
    document = sbom(tmp_path, plan=plan, generator="setuptools (80.9.0)")
    torch = next(one for one in document["components"] if one["bom-ref"] == "torch")
    assert torch["purl"] == "pkg:pypi/torch@2.14.1%2Bcu130"
    tools = {one["name"]: one.get("version") for one in document["metadata"]["tools"]["components"]}
    assert (tools["setuptools"], tools["gcc"], tools["nvcc"]) == ("80.9.0", "14.2", "13.0.88")
    assert "pedigree" not in document["metadata"]["component"]


def test_a_library_without_a_commit_is_named_by_its_version(tmp_path: Path) -> None:
    fmt = VendoredLibrary("third_party/fmt", "fmt", "11.0.2", None, "https://github.com/fmtlib/fmt", None)
    (component,) = (one for one in sbom(tmp_path, fmt)["components"] if one["name"] == "fmt")
    assert component["purl"] == "pkg:github/fmtlib/fmt@11.0.2"


def test_the_serial_number_is_of_the_content(tmp_path: Path) -> None:
    first, again, other = (sbom(tmp_path, library(version=version)) for version in ("1.0", "1.0", "1.1"))
    assert first["serialNumber"] == again["serialNumber"] != other["serialNumber"]
    assert "timestamp" not in first["metadata"]
    moment = datetime(2026, 1, 2, tzinfo=timezone.utc)
    assert sbom(tmp_path, built=moment)["metadata"]["timestamp"] == "2026-01-02T00:00:00+00:00"


@pytest.mark.parametrize(
    ("url", "address", "purl"),
    [
        ("https://me:secret@example.org/a/b.git", "https://example.org/a/b.git", "pkg:generic/fmt@"),
        ("git@github.com:Owner/Name.git", "ssh://github.com/Owner/Name.git", "pkg:github/owner/name@"),
        ("ssh://git@example.org:2222/a b", "ssh://example.org:2222/a%20b", "pkg:generic/fmt@"),
        ("/home/me/fmt", None, "pkg:generic/fmt@"),
        (r"C:\Users\me\fmt", None, "pkg:generic/fmt@"),
        ("", None, "pkg:generic/fmt@"),
    ],
)
def test_addresses_hold_no_secret_and_no_folder(
    tmp_path: Path, url: str, address: str | None, purl: str
) -> None:
    document = sbom(tmp_path, library(url))
    (fmt,) = (one for one in document["components"] if one["name"] == "fmt")
    assert [one["url"] for one in fmt.get("externalReferences", [])] == ([address] if address else [])
    assert fmt["purl"].startswith(purl)
    assert fmt["version"] == COMMIT
    assert not any(word in json.dumps(document) for word in ("secret", "home", "Users"))


@pytest.mark.parametrize(
    ("stated", "licences"),
    [
        ("mit", [{"expression": "MIT"}]),
        ("Apache-2.0 WITH LLVM-exception", [{"expression": "Apache-2.0 WITH LLVM-exception"}]),
        ("MIT with exception", [{"license": {"name": "MIT with exception"}}]),
        (None, []),
    ],
)
def test_licences(tmp_path: Path, stated: str | None, licences: list[Any]) -> None:
    field = f"License-Expression: {stated}\n" if stated else ""
    document = sbom(tmp_path, library(licence=stated), licence=field)
    fmt = next(one for one in document["components"] if one["name"] == "fmt")
    assert fmt.get("licenses", []) == document["metadata"]["component"].get("licenses", []) == licences
