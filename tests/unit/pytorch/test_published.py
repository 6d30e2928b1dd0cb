"""What is published of PyTorch, which of it runs on a GPU, and how each is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchwheel.hardware.arch import parse_architectures
from torchwheel.hardware.architecture import Architecture, known_architectures
from torchwheel.pytorch import releases
from torchwheel.pytorch.releases import (
    RunningBuild,
    optional_part,
    published_builds,
    published_builds_that_run,
    read_releases,
)
from torchwheel.system.toml import read_toml
from torchwheel.toolkit.cuda_releases import read_toolkits

FILE = Path(releases.__file__).with_name("published.toml")
PLATFORMS = ("linux_x86_64", "linux_aarch64", "win_amd64", "macosx_arm64")
EVERY_BUILD = [
    build
    for release in read_releases()
    for platform in PLATFORMS
    for build in published_builds(release, platform)
]


def running(version: str, platform: str, python: str, capability: str) -> tuple[RunningBuild, ...]:
    release = read_releases().release(version)
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
        (
            "RTX 5070", "2.8.0", "linux_x86_64", "cp39", "12.0", "cu128:native:sm_120 cu129:native:sm_120",
        ),
        (
            "GB10", "2.14.1", "linux_aarch64", "cp312", "12.1",
            "cu130:minor-version:sm_120 cu132:minor-version:sm_120",
        ),
        (
            "RTX 4090", "2.14.1", "linux_x86_64", "cp310", "8.9",
            "cu130:minor-version:sm_86 cu132:minor-version:sm_86 cu126:minor-version:sm_86",
        ),
        ("GTX 1080", "2.14.1", "linux_x86_64", "cp312", "6.1", "cu126:minor-version:sm_60"),
        ("RTX 5070", "2.6.0", "linux_x86_64", "cp312", "12.0", ""),
        ("a later GPU", "2.7.1", "linux_x86_64", "cp312", "12.1", "cu128:minor-version:sm_120"),
    ],
)  # fmt: skip
def test_best_first(
    gpu: str, version: str, platform: str, python: str, capability: str, expected: str
) -> None:
    assert summary(version, platform, python, capability) == expected


def test_a_build_that_runs_in_part_comes_last_and_says_so() -> None:
    """PyTorch's own MAGMA for CUDA 13 starts at 8.0 on Linux; the one for 12.6 has 7.0, which runs on 7.5."""
    magma = ("torch.linalg where it uses MAGMA",)
    found = {
        (version, platform): [
            (one.build.label, one.verdict.image, one.without)
            for one in running(version, platform, "cp312", "7.5")
        ]
        for version, platform in (
            ("2.14.1", "linux_x86_64"),
            ("2.15.0", "linux_x86_64"),
            ("2.14.1", "win_amd64"),
        )
    }
    assert found == {
        ("2.14.1", "linux_x86_64"): [
            ("cu126", "sm_75", ()),
            ("cu130", "sm_75", magma),
            ("cu132", "sm_75", magma),
        ],
        ("2.15.0", "linux_x86_64"): [("cu132", "sm_75", magma)],
        ("2.14.1", "win_amd64"): [("cu132", "sm_75", ()), ("cu130", "sm_75", ()), ("cu126", "sm_75", ())],
    }
    assert running("2.15.0", "linux_x86_64", "cp312", "7.5")[0].sentence == (
        "sm_75 runs on 7.5: it is machine code for that architecture; except torch.linalg where it uses MAGMA"
    )


def test_every_part_is_of_a_build_and_of_a_known_library() -> None:
    data = read_toml(FILE)
    served = {row["name"]: row["used_by"] for row in data["library"]}
    parts = {(one.torch, one.platform, one.label): one.parts for one in EVERY_BUILD if one.parts}
    assert {part for found in parts.values() for part, _ in found} == {served["torch_cuda_linalg"]}
    for row in data["part"]:
        assert (row["since"], row["platform"], row["label"]) in parts
        assert (row["until"], row["platform"], row["label"]) in parts
        assert row["library"] in served


def test_a_library_is_known_by_its_name_on_every_system() -> None:
    found = [optional_part(name) for name in ("torch/lib/libtorch_cuda_linalg.so.2.14", "torch_nvshmem.dll")]
    assert found == ["torch.linalg where it uses MAGMA", "torch.distributed's symmetric memory over NVSHMEM"]
    assert optional_part("torch/lib/libtorch_cuda.so") is None


def test_a_python_without_wheels_has_none() -> None:
    assert running("2.14.1", "linux_x86_64", "cp39", "12.0") == ()
    assert running("2.14.1", "linux_x86_64", "cp313t", "12.0") == ()
    assert running("2.14.1", "linux_ppc64le", "cp312", "12.0") == ()


def test_how_to_install_a_build() -> None:
    assert running("2.14.1", "linux_x86_64", "cp312", "12.0")[0].build.command == "pip install torch==2.14.1"
    best = running("2.14.1", "win_amd64", "cp312", "6.1")[0]
    assert best.build.command == (
        "pip install torch==2.14.1 --index-url https://download.pytorch.org/whl/cu126"
    )


def test_pypi_has_one_build_of_every_release_for_every_platform() -> None:
    on_pypi = [(build.torch, build.platform) for build in EVERY_BUILD if build.on_pypi]
    assert sorted(on_pypi) == sorted(
        (version, platform) for version in read_releases().versions for platform in PLATFORMS
    )


def test_every_architecture_is_known_and_compiled_by_the_toolkit_of_its_label() -> None:
    for build in EVERY_BUILD:
        if build.code is None:
            continue
        assert build.cuda is not None
        toolkit = read_toolkits().release(build.cuda)
        assert toolkit is not None, build.cuda
        for architecture in build.code.architectures:
            assert known_architectures().get(architecture) is not None, build
            assert architecture in toolkit.architectures, (build.torch, build.label, architecture)


def test_only_cuda_builds_have_device_code() -> None:
    for build in EVERY_BUILD:
        if build.label == "cpu":
            assert (build.cuda, build.code) == (None, None)
        else:
            assert build.code is not None, build


def test_a_newer_build_of_a_label_has_the_code_of_the_one_before_but_for_what_it_removes() -> None:
    versions = read_releases().versions
    before: dict[tuple[str, str], set[str]] = {}
    rows = (row for group in read_toml(FILE)["build"] for row in group["wheels"] if "code" in row)
    for row in sorted(rows, key=lambda row: versions.index(row["since"])):
        has = {label for label in parse_architectures(row["code"]).labels if label.startswith("sm")}
        removed = {Architecture.of(text).label for text in row.get("removes", ())}
        for platform in row["platforms"]:
            assert before.get((platform, row["label"]), set()) - has == removed, row
            before[platform, row["label"]] = has


def test_no_entries_overlap() -> None:
    versions = read_releases().versions
    data = read_toml(FILE)
    builds = [row for group in data["build"] for row in group["wheels"]]
    for rows in (builds, data["pypi"]["wheels"], data["python"]["wheels"], data["oldest"]["wheels"]):
        seen: set[tuple[object, ...]] = set()
        for row in rows:
            span = versions[versions.index(row["since"]) : versions.index(row["until"]) + 1]
            assert span, row
            label = row.get("label", "") if rows is builds else ""
            entries = {(label, platform, version) for platform in row["platforms"] for version in span}
            assert not entries & seen, row
            seen |= entries
