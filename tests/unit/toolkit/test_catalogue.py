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


def test_every_release_is_there_once_in_order() -> None:
    assert [release.version for release in read_toolkits()] == VERSIONS
    assert len(read_toolkits()) == len(VERSIONS)
    assert read_toolkits().newest().version == "13.5"


def test_every_release_names_its_release_notes() -> None:
    for release in read_toolkits():
        assert release.source.startswith(f"https://docs.nvidia.com/cuda/archive/{release.version}")


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


@pytest.mark.parametrize(
    ("version", "platform", "expected"),
    [
        ("12.9", "win_amd64", "C:\\Program Files\\NVIDIA GPU Computing Toolkit\\CUDA\\v12.9"),
        ("12.9.1", "linux_x86_64", "/usr/local/cuda-12.9"),
        ("13.0", "linux_aarch64", "/usr/local/cuda-13.0"),
    ],
)
def test_default_root(version: str, platform: str, expected: str) -> None:
    assert read_toolkits().default_root(version, platform) == expected


def test_the_file_is_as_its_schema_says() -> None:
    jsonschema.validate(DATA, SCHEMA)


def test_the_first_release_states_everything_that_others_take_over() -> None:
    first, *_ = DATA["release"]
    assert {
        "architectures",
        "gcc",
        "clang",
        "msvc",
        "glibc",
        "platforms",
        "pypi",
        "pypi-nvcc",
    } <= first.keys()


def test_every_major_version_has_its_least_drivers() -> None:
    majors = {release.version.partition(".")[0] for release in read_toolkits()}
    assert DATA["minor-version-compatibility"].keys() == majors


def test_every_architecture_is_written_once_and_can_be_read() -> None:
    for row in DATA["release"]:
        for key in ("architectures", "adds", "removes"):
            texts = row.get(key, [])
            assert len(set(texts)) == len(texts), row
            assert None not in map(Architecture.from_dotted, texts), row


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


def test_an_entry_says_only_what_changed() -> None:
    before = frozenset(map(architecture, ["9.0", "10.1"]))
    row = {"version": "12.1", "adds": ["12.0a"], "removes": ["9.0"]}
    assert [found.dotted for found in sorted(expanded_architectures(row, before))] == ["10.1", "12.0a"]
    assert expanded_architectures({"architectures": ["7.5"]}, before) == {architecture("7.5")}


@pytest.mark.parametrize(
    "wrong",
    [
        {"gccc": 13},
        {"gcc": "13"},
        {"msvc": [1910]},
        {"source": ""},
        {"version": "twelve"},
        {"adds": ["8.0"], "architectures": ["8.0"]},
    ],
)
def test_the_schema_refuses_a_wrong_release(wrong: dict[str, object]) -> None:
    row = {"version": "13.9", "source": "https://docs.nvidia.com/cuda", **wrong}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**DATA, "release": [*DATA["release"], row]}, SCHEMA)


def test_what_is_newer_than_every_release() -> None:
    newest = read_toolkits().newest().version
    assert [read_toolkits().is_newer(version) for version in (newest, f"{newest}.9", "99.0")] == [
        False,
        False,
        True,
    ]
