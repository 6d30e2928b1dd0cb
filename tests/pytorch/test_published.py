"""Which official builds run on a GPU, in which order, and how each is installed."""

from __future__ import annotations

import pytest

from torchwheel.hardware.architecture import Architecture
from torchwheel.pytorch.published import RunningBuild, published_builds_that_run
from torchwheel.pytorch.releases import releases

INDEX = "which https://pytorch.org/get-started/previous-versions gives"


def running(version: str, platform: str, python: str, capability: str) -> tuple[RunningBuild, ...]:
    release = releases().release(version)
    gpu = Architecture.from_dotted(capability)
    assert release is not None
    assert gpu is not None
    return published_builds_that_run(release, platform, python, gpu)


def summary(version: str, platform: str, python: str, capability: str) -> str:
    builds = running(version, platform, python, capability)
    return " ".join(f"{each.build.label}:{each.verdict.how.value}:{each.verdict.image}" for each in builds)


@pytest.mark.parametrize(
    ("gpu", "version", "platform", "python", "capability", "expected"),
    [
        ("RTX 5070", "2.14.1", "linux_x86_64", "cp312", "12.0", "cu130:native:sm_120 cu132:native:sm_120"),
        ("RTX 5070", "2.14.1", "win_amd64", "cp314t", "12.0", "cu132:native:sm_120 cu130:native:sm_120"),
        (
            "RTX 5070", "2.8.0", "linux_x86_64", "cp39", "12.0", "cu128:native:sm_120 cu129:native:sm_120",
        ),
        (
            "GB10", "2.14.1", "linux_aarch64", "cp312", "12.1",
            "cu130:minor-version:sm_120 cu132:minor-version:sm_120",
        ),
        ("Jetson Thor", "2.14.1", "linux_aarch64", "cp312", "11.0", "cu130:native:sm_110 cu132:native:sm_110"),
        (
            "RTX 4090", "2.14.1", "linux_x86_64", "cp310", "8.9",
            "cu130:minor-version:sm_86 cu132:minor-version:sm_86 cu126:minor-version:sm_86",
        ),
        ("GTX 1080", "2.14.1", "linux_x86_64", "cp312", "6.1", "cu126:minor-version:sm_60"),
        ("GTX 1080", "2.14.1", "win_amd64", "cp312", "6.1", "cu126:native:sm_61"),
        ("RTX 5070", "2.15.0", "linux_x86_64", "cp312", "12.0", "cu132:native:sm_120"),
        ("GB10", "2.15.0", "linux_aarch64", "cp312", "12.1", "cu132:minor-version:sm_120"),
        ("V100", "2.11.0", "linux_x86_64", "cp312", "7.0", "cu126:native:sm_70"),
        ("RTX 5070", "2.6.0", "linux_x86_64", "cp312", "12.0", ""),
        ("a later GPU", "2.7.1", "linux_x86_64", "cp312", "12.1", "cu128:minor-version:sm_120"),
    ],
)  # fmt: skip
def test_best_first(
    gpu: str, version: str, platform: str, python: str, capability: str, expected: str
) -> None:
    assert summary(version, platform, python, capability) == expected


def test_a_python_without_wheels_has_none() -> None:
    assert running("2.14.1", "linux_x86_64", "cp39", "12.0") == ()
    assert running("2.14.1", "linux_x86_64", "cp313t", "12.0") == ()
    assert running("2.14.1", "linux_ppc64le", "cp312", "12.0") == ()


def test_builds_that_are_not_on_pypi_run_too() -> None:
    assert [
        summary("2.12.1", "linux_x86_64", "cp312", "12.0"),
        summary("2.13.0", "linux_x86_64", "cp312", "10.0"),
        summary("2.8.0", "linux_aarch64", "cp312", "9.0"),
        summary("2.8.0", "linux_aarch64", "cp312", "8.0"),
        summary("2.8.0", "win_amd64", "cp312", "6.1"),
    ] == [
        "cu130:native:sm_120 cu132:native:sm_120 cu129:native:sm_120",
        "cu130:native:sm_100 cu132:native:sm_100 cu129:native:sm_100",
        "cu129:native:sm_90",
        "",
        "cu126:native:sm_61",
    ]


def test_how_to_install_the_build_that_pypi_has() -> None:
    best = running("2.14.1", "linux_x86_64", "cp312", "12.0")[0]
    assert best.command.arguments == ("pip", "install", "torch==2.14.1")
    assert best.command.text == "pip install torch==2.14.1"
    assert best.command.index_note == ""
    assert best.verdict.sentence.startswith("sm_120 runs on 12.0: ")


def test_how_to_install_another_build() -> None:
    best = running("2.14.1", "win_amd64", "cp312", "6.1")[0]
    assert best.command.arguments == ("pip", "install", "torch==2.14.1")
    assert best.command.text == "pip install torch==2.14.1 --index-url URL"
    assert best.command.index_note == f"URL is the address of the index 'cu126', {INDEX}"
