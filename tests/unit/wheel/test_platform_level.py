"""The C and C++ libraries that a library needs, against its platform tag."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from torchwheel import wheel
from torchwheel.reporting.errors import Problem
from torchwheel.system.toml import read_toml
from torchwheel.wheel.objfile import LibraryFormat, Linkage, NeededVersion, platform_problems


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
    assert not list(platform_problems(MODERN, tag))


def test_a_tag_that_promises_less() -> None:
    (problem,) = platform_problems(MODERN, "manylinux_2_28_x86_64", "m.so")
    assert problem == Problem.of(
        "newer-than-platform-tag",
        origin="m.so",
        needed="GLIBC_2.34, GLIBCXX_3.4.29",
        platform="manylinux_2_28_x86_64",
        promised="GLIBC_2.28, GLIBCXX_3.4.24, CXXABI_1.3.11",
    )


def test_tags_with_a_year_and_tags_older_than_the_table() -> None:
    (problem,) = platform_problems(MODERN, "manylinux2014_x86_64")
    assert problem.why == "the tag promises at most GLIBC_2.17, GLIBCXX_3.4.19, CXXABI_1.3.7"
    (problem,) = platform_problems(MODERN, "manylinux1_x86_64")
    assert problem.why == "the tag promises at most GLIBC_2.5"


def test_the_shipped_levels() -> None:
    folder = Path(wheel.__file__).parent
    schema = json.loads(Path(__file__).with_name("platform_level.schema.json").read_text(encoding="utf-8"))
    document = read_toml(folder / "platform_level.toml")
    jsonschema.validate(document, schema, cls=jsonschema.Draft202012Validator)
    numbers = [
        [tuple(map(int, level[series].split("."))) for series in ("glibc", "GLIBCXX", "CXXABI")]
        for level in document["level"]
    ]
    assert numbers == sorted(numbers)
    assert all(list(column) == sorted(column) for column in zip(*numbers, strict=True))
