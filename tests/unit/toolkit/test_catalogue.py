"""The shipped list of CUDA toolkit releases, the questions it answers, and how it is checked."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

import torchwheel.toolkit
from torchwheel.hardware.architecture import Architecture
from torchwheel.system.toml import read_toml
from torchwheel.toolkit.cuda_releases import expanded_architectures, read_toolkits

DATA = read_toml(Path(torchwheel.toolkit.__path__[0], "toolkits.toml"))
SCHEMA = json.loads(Path(__file__).with_name("toolkits.schema.json").read_text(encoding="utf-8"))

VERSIONS = [
    *(f"11.{minor}" for minor in range(9)),
    *(f"12.{minor}" for minor in range(10) if minor != 7),
    *(f"13.{minor}" for minor in range(6)),
]


def architecture(dotted: str) -> Architecture:
    parsed = Architecture.from_dotted(dotted)
    assert parsed is not None
    return parsed


def compiled(version: str) -> list[str]:
    release = read_toolkits().release(version)
    assert release is not None
    return [found.dotted for found in sorted(release.architectures)]


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("11.0", "3.5 3.7 5.0 5.2 5.3 6.0 6.1 6.2 7.0 7.2 7.5 8.0"),
        ("11.8", "3.5 3.7 5.0 5.2 5.3 6.0 6.1 6.2 7.0 7.2 7.5 8.0 8.6 8.7 8.9 9.0"),
        (
            "12.9",
            "5.0 5.2 5.3 6.0 6.1 6.2 7.0 7.2 7.5 8.0 8.6 8.7 8.9 9.0 9.0a 10.0 10.0a 10.0f 10.1 10.1a 10.1f "
            "10.3 10.3a 10.3f 12.0 12.0a 12.0f 12.1 12.1a 12.1f",
        ),
        (
            "13.4",
            "7.5 8.0 8.6 8.7 8.8 8.9 9.0 9.0a 10.0 10.0a 10.0f 10.3 10.3a 10.3f 10.7 10.7a 10.7f "
            "11.0 11.0a 11.0f 12.0 12.0a 12.0f 12.1 12.1a 12.1f",
        ),
    ],
)
def test_architectures_are_those_that_the_compiler_itself_lists(version: str, expected: str) -> None:
    assert compiled(version) == expected.split()


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (["7.0", "12.0"], ["12.8", "12.9"]),
        (["7.0", "12.1"], ["12.9"]),
        (["7.0", "11.0"], []),
        (["10.7", "12.0"], ["13.4", "13.5"]),
        ([], VERSIONS),
    ],
)
def test_releases_that_compile_all_of_several(wanted: list[str], expected: list[str]) -> None:
    fitting = read_toolkits().compiling_all(map(architecture, wanted))
    assert [release.version for release in fitting] == expected


@pytest.mark.parametrize(
    ("version", "expected"),
    [("12.9", "12.9"), ("12.9.86", "12.9"), ("13.0", "13.0"), ("12.7", None), ("14.0", None), ("", None)],
)
def test_release_of_a_version(version: str, expected: str | None) -> None:
    release = read_toolkits().release(version)
    assert (release.version if release else None) == expected


def test_the_file_is_as_its_schema_says() -> None:
    jsonschema.validate(DATA, SCHEMA)


def test_no_release_contradicts_the_one_before_it() -> None:
    """What an entry adds is new, what it removes was there, and what a full list leaves out it says to remove."""
    before: frozenset[Architecture] = frozenset()
    for row in DATA["release"]:
        removes, adds = (frozenset(map(architecture, row.get(key, []))) for key in ("removes", "adds"))
        after = expanded_architectures(row, before)
        assert removes <= before, row
        assert not adds & before, row
        assert before - after == removes, row
        before = after


def test_what_is_newer_than_every_release() -> None:
    newest = read_toolkits().newest().version
    assert [read_toolkits().is_newer(version) for version in (newest, f"{newest}.9", "99.0")] == [
        False,
        False,
        True,
    ]
