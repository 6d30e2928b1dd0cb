"""The shipped releases, and what is asked of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from torchwheel import pytorch
from torchwheel.pytorch import releases as module
from torchwheel.pytorch.releases import (
    COMPILERS,
    BuildOption,
    CompilerNeed,
    Compilers,
    CudaSupport,
    PytorchRelease,
    ReleaseCatalogue,
    bounded_requires,
    build_options,
    cmake_below,
    published_builds,
    read_releases,
)
from torchwheel.system.toml import read_toml
from torchwheel.versions import parse_numbers

KNOWN = ["2.6.0", "2.7.0", "2.7.1", "2.10.0", "2.14.1", "2.14.3"]


def release(version: str) -> PytorchRelease:
    found = read_releases().release(version)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("version", "cuda", "expected"),
    [
        ("2.14.1", "12.5", CudaSupport.TOO_OLD),
        ("2.14.1", "12.6.85", CudaSupport.ACCEPTED),
        ("2.14.1", "13.4", CudaSupport.UNTRIED),
        ("2.8.0", "13.0", CudaSupport.FAILS),
        ("2.4.1", "13.2", CudaSupport.FAILS),
        ("2.3.1", "12.3.2", CudaSupport.ACCEPTED),
        ("2.3.1", "12.4", CudaSupport.UNTRIED),
        ("2.3.1", "10.2", CudaSupport.TOO_OLD),
        ("2.15.0", "13.2.1", CudaSupport.ACCEPTED),
        ("2.14", "thirteen", CudaSupport.UNKNOWN),
    ],
)
def test_which_cuda_a_release_accepts(version: str, cuda: str, expected: CudaSupport) -> None:
    assert release(version).cuda_accepts(cuda) is expected


def test_every_release_has_every_column() -> None:
    """What a release does not state is named as such: there is no hole that a rule would pass by."""
    table = {r.minor_version: r for r in read_releases()}
    assert list(table) == [f"2.{minor}" for minor in range(16)]
    for known in table.values():
        numbers = (
            known.cuda.minimum,
            known.cuda.newest,
            known.cudnn.minimum,
            str(known.cudnn.newest_major),
            str(known.compilers.cxx_standard),
        )
        assert all(re.fullmatch(r"[1-9]\d*(\.\d+)?", number) for number in numbers), known
        assert known.requires_python.startswith(">=3."), known
        assert all(known.compilers.minimum_version(compiler) for compiler in COMPILERS), known


def test_every_release_accepts_the_cuda_it_was_published_with() -> None:
    for known in read_releases():
        for platform in ("linux_x86_64", "linux_aarch64", "win_amd64"):
            for python in ("cp39", "cp311", "cp312"):
                for build in published_builds(known, platform, python):
                    if build.cuda is not None:
                        assert known.cuda_accepts(build.cuda) is CudaSupport.ACCEPTED, build


def test_a_release_has_the_options_of_its_time() -> None:
    lacked = [("2.7", "USE_NVSHMEM"), ("2.4", "USE_QNNPACK"), ("2.6", "USE_NOTHING")]
    assert all(release(version).lacks_option(name) for version, name in lacked)
    assert not release("2.6").lacks_option("USE_NCCL")
    assert not release("2.8").lacks_option("USE_NVSHMEM")


def of(versions: Iterable[str]) -> ReleaseCatalogue:
    """A catalogue that has these releases, which are all like 2.6."""
    return ReleaseCatalogue({version: replace(release("2.6"), version=version) for version in versions})


@pytest.mark.parametrize(
    ("version", "nearest"),
    [
        ("2.7.1", "2.7.1"),
        ("2.7.1+cu128", "2.7.1"),
        ("2.7.0a0+git1eba9b3", "2.7.0"),
        ("2.7", "2.7.1"),
        ("2.7+cu128.sm120", "2.7.1"),
        ("2.7.9", "2.7.1"),
        ("2.14.0", "2.14.1"),
        ("2.14.2", "2.14.1"),
        ("2.10", "2.10.0"),
        ("2.1", None),
        ("3.0", None),
        ("nightly", None),
    ],
)
def test_nearest_patch(version: str, nearest: str | None) -> None:
    found = of(KNOWN).release(version)
    assert (found and found.version) == nearest


def test_what_a_release_states_counts_unless_its_standard_needs_more() -> None:
    # What is stated just so is the release's own word.
    needs = Compilers(20, {"gcc": "11.3", "msvc": "19.20"})
    assert Compilers(20, {"gcc": "10"}).minimum_version("gcc") == CompilerNeed("10", None)
    assert {compiler: needs.minimum_version(compiler) for compiler in (*COMPILERS, "unknown")} == {
        "gcc": CompilerNeed("11.3", None),
        "clang": CompilerNeed("10", 20),
        "msvc": CompilerNeed("19.29", 20),
        "unknown": None,
    }


@pytest.mark.parametrize(
    ("version", "old_projects", "expected"),
    [
        ("2.6.0", None, "4"),
        ("2.7.0a0", None, None),
        ("2.7.0a0", ("protobuf/cmake",), "4"),
        ("2.6.0", (), None),
        ("2.16.0a0", ("protobuf/cmake",), "4"),
        ("9.0", None, None),
    ],
)
def test_the_tree_decides_which_cmake_is_too_new(
    version: str, old_projects: tuple[str, ...] | None, expected: str | None
) -> None:
    below = cmake_below(version, old_projects)
    assert below == expected
    assert bounded_requires(("cmake>=3.18", "ninja"), below, ()) == (
        ("cmake<4,>=3.18", "ninja") if expected else ("cmake>=3.18", "ninja")
    )
    assert bounded_requires(("cmake",), below, {"CMAKE_POLICY_VERSION_MINIMUM"}) == ("cmake",)


FILE = Path(module.__file__).with_name("options.toml")


def option(name: str) -> BuildOption:
    return build_options()[name]


def presence_in(version: str, option: BuildOption) -> str:
    if parse_numbers(option.first) <= parse_numbers(version, 2) <= parse_numbers(option.last):
        assert not option.is_lacked_by(version)
        return "yes"
    return "no" if option.is_lacked_by(version) else "unknown"


@pytest.mark.parametrize(
    ("name", "presence"),
    [
        ("USE_NCCL", {"1.9": "unknown", "2.0": "yes", "2.6.0": "yes", "2.14.1": "yes", "2.16": "unknown"}),
        ("USE_NVSHMEM", {"2.7.1": "no", "2.8": "yes", "2.13": "yes", "2.15": "yes"}),
        ("USE_NNAPI", {"2.0": "yes", "2.13": "yes", "2.14": "no"}),
        ("USE_CUSPARSELT", {"2.0": "no", "2.1": "yes", "2.13": "yes", "2.15": "yes"}),
        # The tree of 2.6 lacks it; that of 2.8 does too, from before its branch was cut, so 2.8 may have it.
        ("USE_ROCM_CK_GEMM", {"2.6": "no", "2.7": "no", "2.8": "unknown", "2.13": "yes"}),
        ("BUILD_FUNCTORCH", {"1.12": "no", "2.0": "yes", "2.13": "yes", "2.14": "unknown", "2.15": "no"}),
    ],
)
def test_in_which_releases_an_option_is(name: str, presence: dict[str, str]) -> None:
    assert {version: presence_in(version, option(name)) for version in presence} == presence


def test_the_entries_are_sound() -> None:
    data = read_toml(FILE)
    trees = {row["version"] for row in data["trees"]}
    names = [name for row in data["option"] for name in row["names"]]
    assert len(names) == len(set(names))
    for row in data["option"]:
        seen, absent = row.get("seen", []), row.get("absent", [])
        assert {*seen, *absent} <= trees, row
        having = [parse_numbers(text) for text in (*seen, row.get("since"), row.get("until")) if text]
        assert not [text for text in absent if min(having) <= parse_numbers(text) <= max(having)], row


@pytest.mark.parametrize("file", [*Path(pytorch.__file__).parent.glob("*.toml")], ids=lambda file: file.name)
def test_sources_are_public_documents(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    hosts = {urlsplit(word).hostname for word in text.replace('"', " ").split() if word.startswith("https:")}
    assert hosts <= {
        "github.com", "pytorch.org", "download.pytorch.org", "dev-discuss.pytorch.org", "nvidia-cosmos.github.io",
        "gcc.gnu.org", "clang.llvm.org", "learn.microsoft.com", "devblogs.microsoft.com",
    }  # fmt: skip
