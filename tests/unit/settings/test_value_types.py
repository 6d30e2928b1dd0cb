from __future__ import annotations

from pathlib import Path

import pytest

from said import said
from torchwheel.reporting.errors import TorchwheelError
from torchwheel.settings.value_types import (
    ARCHITECTURES,
    BASE_VERSION,
    FLAG,
    LOCAL_LABEL,
    NAMES,
    PATH,
    SCALAR,
    TEXT,
    TEXTS,
    VARIABLE_TEXT,
    VERSION_RANGE,
    Location,
    ValueType,
    choice,
    whole,
)

TOML = Location("key", "file.toml", 'key = "example"')
COMMAND = Location("key", "-C key", "-C key=example", textual=True)


@pytest.mark.parametrize(
    ("value_type", "raw", "location", "expected"),
    [
        (TEXT, "a b", TOML, "a b"),
        (whole(1, 1024), 1024, TOML, 1024),
        (whole(1, 1024), " 8 ", COMMAND, 8),
        (FLAG, True, TOML, True),
        (FLAG, "On", COMMAND, True),
        (FLAG, "0", COMMAND, False),
        (choice("Release", "Debug"), "debug", TOML, "Debug"),
        (NAMES, "a100, t4,,a100", TOML, ("a100", "t4")),
        (NAMES, ["a100,t4", "l4"], COMMAND, ("a100", "t4", "l4")),
        (NAMES, "", COMMAND, ()),
        (VERSION_RANGE, "12.9", TOML, "==12.9.*"),
        (VERSION_RANGE, "13", TOML, "==13.*"),
        (VERSION_RANGE, "13.0.88", TOML, "==13.0.88"),
        (VERSION_RANGE, " >=12.8,<13 ", TOML, ">=12.8,<13"),
        (BASE_VERSION, "2.6.0rc1", TOML, "2.6.0rc1"),
        (LOCAL_LABEL, "CU130_sm120-A", TOML, "cu130.sm120.a"),
        (SCALAR, "a;b \"c\" 'd' ü", TOML, "a;b \"c\" 'd' ü"),
        (SCALAR, 3, TOML, 3),
        (SCALAR, False, TOML, False),
        (VARIABLE_TEXT, "", TOML, ""),
    ],
)
def test_read(value_type: ValueType, raw: object, location: Location, expected: object) -> None:
    value = value_type.read(raw, location)
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("value_type", "raw", "location"),
    [
        (TEXT, "  ", TOML),
        (TEXT, 3, TOML),
        (PATH, ["a"], TOML),
        (whole(1, 1024), 0, TOML),
        (whole(1, 1024), True, TOML),
        (whole(1, 1024), "8", TOML),
        (whole(1, 1024), "-8", COMMAND),
        (whole(1, 1024), 1.5, TOML),
        (FLAG, "true", TOML),
        (FLAG, "maybe", COMMAND),
        (choice("auto"), 1, TOML),
        (NAMES, 3, TOML),
        (NAMES, ["a", 3], TOML),
        (ARCHITECTURES, 12.0, TOML),
        (ARCHITECTURES, [12.0], TOML),
        (VERSION_RANGE, ">=>", TOML),
        (VERSION_RANGE, "", TOML),
        (VERSION_RANGE, 12.9, TOML),
        (BASE_VERSION, "two", TOML),
        (BASE_VERSION, 2.6, TOML),
        (LOCAL_LABEL, "cu130+sm120", TOML),
        (LOCAL_LABEL, "cu130..sm120", TOML),
        (SCALAR, 1.5, TOML),
        (SCALAR, "two\nlines", TOML),
        (VARIABLE_TEXT, "two\nlines", TOML),
        (whole(1, 1024), 1025, TOML),
        (whole(1, 1024), "9" * 5000, COMMAND),
        (SCALAR, ["a"], TOML),
        (VARIABLE_TEXT, 2, TOML),
        (VARIABLE_TEXT, "nul\0", TOML),
        (SCALAR, "nul\0", TOML),
        (TEXT, "nul\0", TOML),
        (PATH, "nul\0", TOML),
        (TEXTS, ["nul\0"], TOML),
    ],
)
def test_refuse(value_type: ValueType, raw: object, location: Location) -> None:
    with pytest.raises(TorchwheelError) as caught:
        value_type.read(raw, location)
    assert [problem.id for problem in caught.value.problems] == ["ill-typed-value"]
    assert [problem.origin for problem in caught.value.problems] == [location.origin]


@pytest.mark.parametrize("value_type", [VARIABLE_TEXT, SCALAR, TEXT, PATH, TEXTS])
def test_a_byte_that_is_not_utf8(value_type: ValueType) -> None:
    """The manifest could not be written, after the whole compile."""
    with pytest.raises(TorchwheelError) as caught:
        value_type.read(b"-DX=\xff".decode("utf-8", "surrogateescape"), COMMAND)
    assert str(caught.value) == said("ill-typed-value", COMMAND.origin, "0xFF")


def test_the_refusal_says_what_and_what_instead() -> None:
    with pytest.raises(TorchwheelError) as caught:
        whole(1, 1024).read("many", Location("jobs", "-C jobs", "-C jobs=8", textual=True))
    assert str(caught.value) == said(
        "ill-typed-value", '"many"', "a whole number from 1 to 1,024", "-C jobs=8"
    )


def test_a_mistyped_choice_gets_the_nearest_word() -> None:
    with pytest.raises(TorchwheelError) as caught:
        choice("Release", "Debug").read("Relaese", TOML)
    assert caught.value.problems[0].remedy == "did you mean Release?"


def test_a_version_with_a_local_label_is_taken_apart_in_the_remedy() -> None:
    with pytest.raises(TorchwheelError) as caught:
        BASE_VERSION.read("2.6.0+cu124", TOML)
    assert caught.value.problems[0].remedy == "write 2.6.0 there, and cu124 in local-version"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("../pytorch", str(Path("/projekt ü/../pytorch"))),
        ("/opt/cuda 13", "/opt/cuda 13"),
        (r"C:\Program Files\CUDA\v12.9", r"C:\Program Files\CUDA\v12.9"),
    ],
)
def test_paths_are_relative_to_their_file(text: str, expected: str) -> None:
    location = Location("key", "pyproject.toml", "", folder=Path("/projekt ü"))
    assert PATH.read(text, location) == expected
    assert PATH.read(text, COMMAND) == text


def test_architectures_report_every_bad_one() -> None:
    with pytest.raises(TorchwheelError) as caught:
        ARCHITECTURES.read("99.9;12.0;77.7", COMMAND)
    assert [problem.origin for problem in caught.value.problems] == ["-C key", "-C key"]
    assert str(ARCHITECTURES.read(["12.0", "sm_90"], COMMAND)) == "9.0;12.0"
