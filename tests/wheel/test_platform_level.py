"""The C and C++ libraries that a library needs, against its platform tag."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchwheel.errors import Problem, TorchwheelError
from torchwheel.wheel import platform_level
from torchwheel.wheel.linkage import LibraryFormat, Linkage, NeededVersion
from torchwheel.wheel.platform_level import platform_problems, read_levels


def needing(*versions: str) -> Linkage:
    return Linkage(LibraryFormat.ELF, (), (), tuple(NeededVersion("lib.so", version) for version in versions))


MODERN = needing("GLIBC_2.34", "GLIBCXX_3.4.29", "CXXABI_1.3.9", "GCC_3.0")


@pytest.mark.parametrize(
    "tag",
    [
        "linux_x86_64",
        "manylinux_2_34_x86_64",
        "manylinux_2_39_aarch64",
        "musllinux_1_2_x86_64",
        "any",
        "win_amd64",
    ],
)
def test_tags_that_promise_as_much(tag: str) -> None:
    assert platform_problems(MODERN, tag) == ()


def test_a_tag_that_promises_less() -> None:
    assert platform_problems(MODERN, "manylinux_2_28_x86_64", "m.so") == (
        Problem(
            id="newer-than-platform-tag",
            what="it needs GLIBC_2.34, GLIBCXX_3.4.29, which not every manylinux_2_28_x86_64 has",
            remedy="build on an older system, for example in the image quay.io/pypa/manylinux_2_28_x86_64; or tag "
            "the wheel for what it needs",
            why="the tag promises at most GLIBC_2.28, GLIBCXX_3.4.24, CXXABI_1.3.11",
            origin="m.so",
        ),
    )


def test_tags_with_a_year_and_tags_older_than_the_table() -> None:
    (problem,) = platform_problems(MODERN, "manylinux2014_x86_64")
    assert problem.why == "the tag promises at most GLIBC_2.17, GLIBCXX_3.4.19, CXXABI_1.3.7"
    (problem,) = platform_problems(MODERN, "manylinux1_x86_64")
    assert problem.why == "the tag promises at most GLIBC_2.5"


def test_the_shipped_levels() -> None:
    levels = read_levels(Path(platform_level.__file__).with_name("platform_level.toml"))
    numbers = [
        [tuple(map(int, number.split("."))) for number in (level.glibc, *level.newest.values())]
        for level in levels
    ]
    assert numbers == sorted(numbers)
    assert all(list(column) == sorted(column) for column in zip(*numbers, strict=True))
    assert {tuple(level.newest) for level in levels} == {("GLIBCXX", "CXXABI")}


def test_a_malformed_file(tmp_path: Path) -> None:
    file = tmp_path / "levels.toml"
    file.write_text('[[level]]\nglibc = "2.17"\nGLIBCXX = 3\nCXXABI = "1.3.7"\nGCC = "4"\n', encoding="utf-8")
    with pytest.raises(TorchwheelError) as caught:
        read_levels(file)
    assert [problem.what for problem in caught.value.problems] == [
        "the file: 'source' must be a str that is not empty, and is nothing",
        "level 2.17: unknown key 'GCC'",
        "level 2.17: 'GLIBCXX' must be a str that is not empty, and is 3",
    ]
