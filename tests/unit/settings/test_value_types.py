from __future__ import annotations

from pathlib import Path

import pytest

from torchwheel.reporting.errors import Problem, TorchwheelError
from torchwheel.settings.value_types import (
    Architectures,
    BaseVersion,
    Choice,
    Flag,
    LocalLabel,
    Location,
    Names,
    PathText,
    Scalar,
    Text,
    Texts,
    ValueType,
    VariableText,
    VersionRange,
    Whole,
)

TOML = Location("key", "file.toml", 'key = "example"')
COMMAND = Location("key", "-C key", "-C key=example", textual=True)


@pytest.mark.parametrize(
    ("value_type", "raw", "location", "expected"),
    [
        (Text(), "a b", TOML, "a b"),
        (Whole(least=1, greatest=1024), 8, TOML, 8),
        (Whole(least=1, greatest=1024), " 8 ", COMMAND, 8),
        (Flag(), True, TOML, True),
        (Flag(), "On", COMMAND, True),
        (Flag(), "0", COMMAND, False),
        (Choice(("Release", "Debug")), "debug", TOML, "Debug"),
        (Names(), "a100, t4,,a100", TOML, ("a100", "t4")),
        (Names(), ["a100,t4", "l4"], COMMAND, ("a100", "t4", "l4")),
        (Names(), "", COMMAND, ()),
        (VersionRange(), "12.9", TOML, "==12.9.*"),
        (VersionRange(), "13", TOML, "==13.*"),
        (VersionRange(), "13.0.88", TOML, "==13.0.88"),
        (VersionRange(), " >=12.8,<13 ", TOML, ">=12.8,<13"),
        (BaseVersion(), "2.6.0rc1", TOML, "2.6.0rc1"),
        (LocalLabel(), "CU130_sm120-A", TOML, "cu130.sm120.a"),
        (Scalar(), "a;b \"c\" 'd' ü", TOML, "a;b \"c\" 'd' ü"),
        (Scalar(), 3, TOML, 3),
        (Scalar(), False, TOML, False),
        (VariableText(), "", TOML, ""),
    ],
)
def test_read(value_type: ValueType, raw: object, location: Location, expected: object) -> None:
    value = value_type.read(raw, location)
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("value_type", "raw", "location"),
    [
        (Text(), "  ", TOML),
        (Text(), 3, TOML),
        (PathText(), ["a"], TOML),
        (Whole(least=1, greatest=1024), 0, TOML),
        (Whole(least=1, greatest=1024), True, TOML),
        (Whole(least=1, greatest=1024), "8", TOML),
        (Whole(least=1, greatest=1024), "-8", COMMAND),
        (Whole(least=1, greatest=1024), 1.5, TOML),
        (Flag(), "true", TOML),
        (Flag(), "maybe", COMMAND),
        (Choice(("auto",)), 1, TOML),
        (Names(), 3, TOML),
        (Names(), ["a", 3], TOML),
        (Architectures(), 12.0, TOML),
        (Architectures(), [12.0], TOML),
        (VersionRange(), ">=>", TOML),
        (VersionRange(), "", TOML),
        (VersionRange(), 12.9, TOML),
        (BaseVersion(), "two", TOML),
        (BaseVersion(), 2.6, TOML),
        (LocalLabel(), "cu130+sm120", TOML),
        (LocalLabel(), "cu130..sm120", TOML),
        (Scalar(), 1.5, TOML),
        (Scalar(), "two\nlines", TOML),
        (VariableText(), "two\nlines", TOML),
        (Whole(least=1, greatest=1024), 1025, TOML),
        (Whole(least=1, greatest=1024), "9" * 5000, COMMAND),
        (Scalar(), ["a"], TOML),
        (VariableText(), 2, TOML),
        (VariableText(), "nul\0", TOML),
        (Scalar(), "nul\0", TOML),
        (Text(), "nul\0", TOML),
        (PathText(), "nul\0", TOML),
        (Texts(), ["nul\0"], TOML),
    ],
)
def test_refuse(value_type: ValueType, raw: object, location: Location) -> None:
    with pytest.raises(TorchwheelError) as caught:
        value_type.read(raw, location)
    assert [problem.id for problem in caught.value.problems] == ["ill-typed-value"]
    assert [problem.origin for problem in caught.value.problems] == [location.origin]


@pytest.mark.parametrize("value_type", [VariableText(), Scalar(), Text(), PathText(), Texts()])
def test_a_byte_that_is_not_utf8(value_type: ValueType) -> None:
    """The manifest could not be written, after the whole compile."""
    with pytest.raises(TorchwheelError) as caught:
        value_type.read(b"-DX=\xff".decode("utf-8", "surrogateescape"), COMMAND)
    assert str(caught.value) == (
        Problem.of("ill-typed-value/byte", origin=COMMAND.origin, byte="0xFF").render()
    )


def test_the_refusal_says_what_and_what_instead() -> None:
    with pytest.raises(TorchwheelError) as caught:
        Whole(least=1, greatest=1024).read("many", Location("jobs", "-C jobs", "-C jobs=8", textual=True))
    assert str(caught.value) == (
        Problem.of(
            "ill-typed-value",
            origin="-C jobs",
            key="jobs",
            value='"many"',
            form="a whole number from 1 to 1,024",
            assignment="-C jobs=8",
        ).render()
    )


def test_a_mistyped_choice_gets_the_nearest_word() -> None:
    with pytest.raises(TorchwheelError) as caught:
        Choice(("Release", "Debug")).read("Relaese", TOML)
    assert caught.value.problems[0].remedy == "did you mean Release?"


def test_a_version_with_a_local_label_is_taken_apart_in_the_remedy() -> None:
    with pytest.raises(TorchwheelError) as caught:
        BaseVersion().read("2.6.0+cu124", TOML)
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
    assert PathText().read(text, location) == expected
    assert PathText().read(text, COMMAND) == text


def test_architectures_report_every_bad_one() -> None:
    with pytest.raises(TorchwheelError) as caught:
        Architectures().read("99.9;12.0;77.7", COMMAND)
    assert [problem.origin for problem in caught.value.problems] == ["-C key", "-C key"]
    assert str(Architectures().read(["12.0", "sm_90"], COMMAND)) == "9.0;12.0"
