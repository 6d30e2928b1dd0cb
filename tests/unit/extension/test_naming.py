"""What an extension's wheel is called, and which PyTorch it asks for."""

from __future__ import annotations

import pytest
from packaging.requirements import Requirement
from packaging.tags import cpython_tags
from packaging.version import Version

from torchwheel.extension.wheel_record import (
    common_stable_abi,
    extension_label,
    python_tags,
    torch_requirements,
)
from torchwheel.hardware.arch import parse_architectures


@pytest.mark.parametrize(
    ("cuda", "architectures", "torch", "stable", "expected"),
    [
        ("13.0", "12.0", "2.14.1+cu130", False, "cu130.sm120.torch2.14"),
        ("13.0", "9.0;12.0", "2.14.1", False, "cu130.sm90.sm120.torch2.14"),
        ("12.9", "9.0a;12.0+PTX", "2.10", False, "cu129.sm90a.sm120.ptx120.torch2.10"),
        ("13.0", "12.0", "2.14.1", True, "cu130.sm120"),
        ("13.0", None, "2.14.1+cu130", False, "cu130.torch2.14"),
        (None, None, "2.15.0a0+git1234567", False, "cpu.torch2.15"),
        (None, None, "2.14.1", True, "cpu"),
        (None, None, "2.16.0.dev20261101+cu130", False, "cpu.torch2.16.dev20261101"),
    ],
)
def test_labels(cuda: str | None, architectures: str | None, torch: str, stable: bool, expected: str) -> None:
    parsed = parse_architectures(architectures) if architectures else None
    label = extension_label(cuda, parsed, torch, stable=stable)
    assert label == expected
    assert Version(f"1.2+{label}").local == label


def test_another_build_type_is_another_wheel() -> None:
    def label(build_type: str, dirty: bool = False) -> str:
        return extension_label(None, None, "2.14.1", stable=False, build_type=build_type, dirty=dirty)

    assert (label("Release"), label("Debug")) == ("cpu.torch2.14", "cpu.torch2.14.debug")
    assert label("RelWithDebInfo", dirty=True) == "cpu.torch2.14.relwithdebinfo.dirty"


@pytest.mark.parametrize(
    ("torch", "stable_abi", "expected"),
    [
        ("2.14.1+cu130", None, "torch>=2.14,<2.15"),
        ("2.9.0", None, "torch>=2.9,<2.10"),
        ("2.15.0a0+git1234567", None, "torch>=2.15.dev0,<2.16"),
        ("2.15.0.dev20261101+cpu", None, "torch==2.15.0.dev20261101"),
        ("2.14.1", "2.10", "torch>=2.10"),
        ("2.15.0a0", "2.10", "torch>=2.10"),
        # 2.15.0a0 does not satisfy torch>=2.15.
        ("2.15.0a0", "2.15", "torch>=2.15.dev0"),
        ("2.15.0.dev20261101", "2.15", "torch>=2.15.dev0"),
        ("2.15.0", "2.15", "torch>=2.15"),
    ],
)
def test_requirements(torch: str, stable_abi: str | None, expected: str) -> None:
    assert torch_requirements(torch, stable_abi) == (expected,)
    assert Requirement(expected).specifier.contains(
        torch, prereleases=True if Version(torch).is_prerelease else None
    )


def test_python_tags() -> None:
    assert python_tags("cp311", "cp311", limited_api=False) == ("cp311", "cp311")
    assert python_tags("cp313", "cp313", limited_api=True) == ("cp310", "abi3")


@pytest.mark.parametrize("abi_tag", ["cp313t", "cp314td"])
def test_free_threaded_pythons_take_no_abi3(abi_tag: str) -> None:
    interpreter = abi_tag.rstrip("td")
    accepted = {tag.abi for tag in cpython_tags((3, int(interpreter[3:])), [abi_tag.rstrip("d")], ["any"])}
    assert "abi3" not in accepted
    assert python_tags(interpreter, abi_tag, limited_api=True) == (interpreter, abi_tag)


@pytest.mark.parametrize("version", ["", "main", "two.ten"])
def test_no_version(version: str) -> None:
    with pytest.raises(ValueError, match="Invalid version"):
        extension_label(None, None, version, stable=False)
    with pytest.raises(ValueError, match="Invalid version"):
        torch_requirements(version, None)


def test_the_newest_of_the_stable_abis_is_that_of_all() -> None:
    assert common_stable_abi(["2.9", "2.10"]) == "2.10"
    assert common_stable_abi(["2.10", None]) is None
    assert common_stable_abi([]) is None
