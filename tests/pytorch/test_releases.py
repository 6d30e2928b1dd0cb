"""The shipped releases, the questions to them, and the checks on loading."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from torchwheel.errors import TorchwheelError
from torchwheel.pytorch.compilers import COMPILERS
from torchwheel.pytorch.options import options
from torchwheel.pytorch.releases import CudaRange, CudaSupport, Release, load_releases, releases

MINOR_VERSIONS = [f"2.{minor}" for minor in range(16)]


def release(version: str) -> Release:
    found = releases().release(version)
    assert found is not None
    return found


def test_every_release_is_there_in_order() -> None:
    assert " ".join(releases().versions) == (
        "2.0.0 2.0.1 2.1.0 2.1.1 2.1.2 2.2.0 2.2.1 2.2.2 2.3.0 2.3.1 2.4.0 2.4.1 2.5.0 2.5.1 2.6.0 2.7.0 2.7.1 "
        "2.8.0 2.9.0 2.9.1 2.10.0 2.11.0 2.12.0 2.12.1 2.13.0 2.14.0 2.14.1 2.15.0"
    )
    assert [known.version for known in releases()] == list(releases().versions)


def test_scikit_build_core_took_over_in_2_14() -> None:
    assert {known.minor_version: known.generation for known in releases()} == {
        minor: "scikit-build-core" if minor in ("2.14", "2.15") else "setup.py" for minor in MINOR_VERSIONS
    }


def test_a_version_finds_its_release() -> None:
    assert release("2.14.1+cu130").version == "2.14.1"
    assert release("2.14").version == "2.14.1"
    assert release("2.6.0a0+git1eba9b3").minor_version == "2.6"
    assert releases().release("2.99") is None
    assert releases().release("1.13.1") is None


def test_the_facts_of_2_6_are_those_of_its_tree() -> None:
    known = release("2.6.0")
    assert known.cuda == CudaRange(
        minimum="11.0",
        newest="12.6",
        fails_from=None,
        source="https://github.com/pytorch/pytorch/blob/v2.6.0/cmake/public/cuda.cmake",
    )
    assert (known.cudnn.minimum, known.cudnn.newest_major) == ("8.5", 9)
    assert (known.compilers.cxx_standard, known.compilers.gcc) == (17, "9.3")
    assert (known.cmake_minimum, known.requires_python) == ("3.18", ">=3.9.0")


@pytest.mark.parametrize(
    ("version", "cuda", "expected"),
    [
        ("2.14.1", "12.5", CudaSupport.TOO_OLD),
        ("2.14.1", "12.6.85", CudaSupport.ACCEPTED),
        ("2.14.1", "13.2", CudaSupport.ACCEPTED),
        ("2.14.1", "13.4", CudaSupport.UNTRIED),
        ("2.13.0", "12.1", CudaSupport.ACCEPTED),
        ("2.13.0", "12.0", CudaSupport.TOO_OLD),
        ("2.8.0", "11.8", CudaSupport.ACCEPTED),
        ("2.3.1", "12.3.2", CudaSupport.ACCEPTED),
        ("2.3.1", "12.4", CudaSupport.FAILS),
        ("2.3.1", "10.2", CudaSupport.TOO_OLD),
        ("2.12.0", "12.1", CudaSupport.ACCEPTED),
        ("2.12.0", "12.0", CudaSupport.TOO_OLD),
        ("2.12.0", "12.6", CudaSupport.ACCEPTED),
        ("2.15.0", "13.0", CudaSupport.ACCEPTED),
        ("2.15.0", "12.4", CudaSupport.TOO_OLD),
        ("2.15.0", "13.2.1", CudaSupport.ACCEPTED),
    ],
)
def test_which_cuda_a_release_accepts(version: str, cuda: str, expected: CudaSupport) -> None:
    assert release(version).cuda_accepts(cuda) is expected


def test_every_release_has_every_column() -> None:
    """What a release does not state is named as such: there is no hole that a rule would pass by."""
    table = {r.minor_version: r for r in releases()}
    assert list(table) == MINOR_VERSIONS
    for known in table.values():
        numbers = (
            known.cuda.minimum,
            known.cuda.newest,
            known.cudnn.minimum,
            str(known.cudnn.newest_major),
            str(known.compilers.cxx_standard),
            known.cmake_minimum,
        )
        assert all(re.fullmatch(r"[1-9]\d*(\.\d+)?", number) for number in numbers), known
        assert known.requires_python.startswith(">=3."), known
        assert all(known.compilers.needed(compiler) for compiler in COMPILERS), known


def test_what_compiles_each_release() -> None:
    """The C++ standard, then GCC, Clang and Visual C++; a star where the standard asks for that, not the release."""
    assert {r.minor_version: " ".join(compilers(r)) for r in releases()} == {
        "2.0": "17 7* 5* 19.11*",
        "2.1": "17 7* 7 19.20",
        "2.2": "17 9.4 7 19.20",
        "2.3": "17 9.4 9 19.20",
        "2.4": "17 9.4 9 19.20",
        "2.5": "17 9.4 9 19.20",
        "2.6": "17 9.3 9 19.20",
        "2.7": "17 9.3 9 19.20",
        "2.8": "17 9.3 9 19.20",
        "2.9": "17 9.4 9 19.20",
        "2.10": "17 9.4 9 19.20",
        "2.11": "17 9.4 9 19.20",
        "2.12": "20 11.3 10* 19.29*",
        "2.13": "20 11.3 16 19.29*",
        "2.14": "20 11.3 16 19.29*",
        "2.15": "20 11.3 16 19.29*",
    }


def compilers(known: Release) -> Iterator[str]:
    yield str(known.compilers.cxx_standard)
    for compiler in COMPILERS:
        need = known.compilers.needed(compiler)
        assert need is not None
        assert need.cxx_standard in (None, known.compilers.cxx_standard)
        yield f"{need.version}{'*' if need.cxx_standard else ''}"


def test_of_what_is_no_cuda_version_nothing_is_known() -> None:
    assert release("2.14").cuda_accepts("thirteen") is CudaSupport.UNKNOWN


def test_every_release_accepts_the_cuda_it_was_published_with() -> None:
    for known in releases():
        for platform in ("linux_x86_64", "linux_aarch64", "win_amd64"):
            for python in ("cp39", "cp311", "cp312"):
                for build in known.published(platform, python):
                    if build.cuda is not None:
                        assert known.cuda_accepts(build.cuda) is CudaSupport.ACCEPTED, build


def test_a_release_has_the_options_of_its_time() -> None:
    assert release("2.6").option("USE_NCCL") is options().find("USE_NCCL")
    assert release("2.7").option("USE_NVSHMEM") is None
    assert release("2.8").option("USE_NVSHMEM") is options().find("USE_NVSHMEM")
    assert release("2.4").option("USE_QNNPACK") is None
    assert release("2.6").option("USE_NOTHING") is None


def test_every_wrong_entry_is_reported_once(tmp_path: Path) -> None:
    path = tmp_path / "releases.toml"
    path.write_text(
        """
        [[release]]
        version = "2.6"
        patches = [0, 1]
        generation = "bazel"
        requires-python = ">=3.9"
        source = "a friend"
        colour = "red"

        [release.cuda]
        minimum = "eleven"
        source = "https://example.org/cuda"

        [release.compilers]
        cxx-standard = 98
        gcc = "9.3"
        msvc = "19.20"
        not-stated = ["msvc", "icc"]
        source = "https://example.org/compilers"

        [[release]]
        version = "2.5"
        patches = [0]
        generation = "setup.py"
        requires-python = ">=3.8"
        source = "https://example.org/2.5"

        [release.cuda]
        newest = "12.4"
        source = "https://example.org/cuda"

        [release.cudnn]
        minimum = "8.5"
        newest-major = "nine"
        source = "https://example.org/cudnn"

        [release.cmake]
        maximum = "4.0"
        source = "https://example.org/cmake"
        """,
        encoding="utf-8",
    )
    with pytest.raises(TorchwheelError) as caught:
        load_releases(path)
    assert [(problem.what, problem.remedy, problem.origin) for problem in caught.value.problems] == [
        (what, remedy, str(path))
        for what, remedy in [
            (
                "release '2.6': unknown key 'colour'",
                "use only cmake, compilers, cuda, cudnn, generation, patches, requires-python, source, version",
            ),
            ("release '2.6': 'generation' is 'bazel'", "use one of setup.py, scikit-build-core"),
            (
                "release '2.6', cuda: 'minimum' is 'eleven', which is no version",
                "write it as in '12.6'",
            ),
            (
                "release '2.6', cuda: 'newest' is missing",
                "name the newest CUDA that the release was built with",
            ),
            (
                "release '2.6': 'cudnn' must be a dict that is not empty, and is nothing",
                "correct that entry",
            ),
            (
                "release '2.6', compilers: 'clang' must have a version or be among 'not-stated'",
                "say either, of each of gcc, clang, msvc",
            ),
            (
                "release '2.6', compilers: 'msvc' must have a version or be among 'not-stated'",
                "say either, of each of gcc, clang, msvc",
            ),
            (
                "release '2.6', compilers: 'icc' must have a version or be among 'not-stated'",
                "say either, of each of gcc, clang, msvc",
            ),
            (
                "release '2.6', compilers: C++98 is in no entry of cxx_standards.toml",
                "add it there",
            ),
            (
                "release '2.6': 'cmake' must be a dict that is not empty, and is nothing",
                "correct that entry",
            ),
            (
                "release '2.6': 'a friend' is no source",
                "give a link, or 'PyPI: ' and what was read there",
            ),
            ("release '2.5', cuda: 'minimum' is missing", "name the least CUDA that the tree takes"),
            (
                "release '2.5', cudnn: 'newest-major' must be a int that is not empty, and is 'nine'",
                "correct that entry",
            ),
            (
                "release '2.5': 'compilers' must be a dict that is not empty, and is nothing",
                "correct that entry",
            ),
            (
                "release '2.5', cmake: unknown key 'maximum'",
                "use only minimum, note, source",
            ),
            ("release '2.5', cmake: 'minimum' is missing", "name the least CMake that the tree takes"),
            ("release '2.5': 2.5.0 is out of order", "sort the releases by version"),
        ]
    ]


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "releases.toml"
    path.write_text("", encoding="utf-8")
    with pytest.raises(TorchwheelError, match="there is no release"):
        load_releases(path)
