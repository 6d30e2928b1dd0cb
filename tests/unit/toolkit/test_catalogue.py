"""The shipped list of CUDA toolkit releases, the questions it answers, and how it is checked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

import torchwheel.toolkit
from places import MINITORCH, REPOSITORY
from preflight.contexts import context, toolkit
from torchwheel.cli.main import main
from torchwheel.hardware.architecture import Architecture, known_architectures
from torchwheel.hardware.gpu_catalogue import read_gpus
from torchwheel.preflight.host_file import host_file_text, read_host_file
from torchwheel.system.toml import read_toml
from torchwheel.toolkit.cuda_releases import expanded_architectures, read_toolkits
from torchwheel.toolkit.host_compiler import HostCompilerLimits
from torchwheel.toolkit.pypi import requirements_for

DATA = read_toml(Path(torchwheel.toolkit.__path__[0], "toolkits.toml"))
SCHEMA = json.loads(Path(__file__).with_name("toolkits.schema.json").read_text(encoding="utf-8"))

VERSIONS = [
    *(f"11.{minor}" for minor in range(9)),
    *(f"12.{minor}" for minor in range(10) if minor != 7),
    *(f"13.{minor}" for minor in range(6)),
]


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
    fitting = read_toolkits().compiling_all(map(Architecture.of, wanted))
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
        removes, adds = (frozenset(map(Architecture.of, row.get(key, []))) for key in ("removes", "adds"))
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


def test_doctor_says_what_it_does_not_know(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    host = context(toolkits=(toolkit("14.0", limits=HostCompilerLimits(17, 23)),)).host
    path = tmp_path / "machine.toml"
    path.write_text(host_file_text(host), encoding="utf-8")
    assert read_host_file(path).toolkits == host.toolkits
    named = ("-C", "arch=7.5", "-C", "cuda-path=/usr/local/cuda-14.0")
    main(["doctor", str(MINITORCH), "--host", str(path), "--json", *named])
    findings = {one["id"]: one["severity"] for one in json.loads(capsys.readouterr().out)["findings"]}
    assert findings["toolkit-newer-than-table"] == "note"
    assert "error" not in findings.values()


def test_packages_of_a_newer_release_are_required_as_they_are() -> None:
    (newer,) = requirements_for("14.0")
    assert (newer.partition("[")[0], newer.partition("]")[2]) == ("cuda-toolkit", "==14.0.*")


DOCUMENTS = sorted(
    [REPOSITORY / "README.md", REPOSITORY / "CHANGELOG.md"]
    + [
        path
        for pattern in ("docs/*.md", "overlays/*.toml", "examples/*/README.md")
        for path in REPOSITORY.glob(pattern)
    ]
)

MENTION = re.compile(r"\b(?:sm_?|compute_|ptx)(\d{2,3}[af]?)\b")
FIRST_RELEASE = re.compile(r"\bsm_(\d{2,3}[af]?) (?:exists from|is compiled by) CUDA (\d+\.\d+)")

# Older than the oldest GPU that torchwheel knows; CUDA 11 still compiled for it.
KEPLER = {Architecture(3, 5), Architecture(3, 7)}


def architecture(number: str) -> Architecture:
    """The one that ``"120a"`` spells."""
    digits = number.rstrip("af")
    return Architecture.of(f"{digits[:-1]}.{digits[-1]}{number[len(digits) :]}")


def found(pattern: re.Pattern[str]) -> Iterator[tuple[str, ...]]:
    for path in DOCUMENTS:
        for match in pattern.finditer(path.read_text(encoding="utf-8")):
            yield path.name, *match.groups()


def test_the_known_architectures_are_those_that_toolkits_compile() -> None:
    compiled = frozenset().union(*(release.architectures for release in read_toolkits()))
    known = {Architecture.from_dotted(text) for entry in known_architectures() for text in entry.spellings}
    assert known == compiled - KEPLER


def test_every_gpu_can_be_compiled_for() -> None:
    assert {
        gpu.name for gpu in read_gpus() if not read_toolkits().compiling_all([gpu.compute_capability])
    } == set()


def test_documents_name_only_architectures_that_exist() -> None:
    mentions = list(found(MENTION))
    assert {name for name, _ in mentions} >= {"README.md", "sm120.toml"}
    unknown = [
        (name, number)
        for name, number in mentions
        if not read_toolkits().compiling_all([architecture(number)])
    ]
    assert unknown == []


def test_documents_name_the_first_toolkit_of_an_architecture() -> None:
    said = list(found(FIRST_RELEASE))
    assert {name for name, _, _ in said} >= {"quickstart.md", "a100.toml", "gb10.toml", "sm120.toml"}
    assert said == [
        (name, number, read_toolkits().compiling_all([architecture(number)])[0].version)
        for name, number, _ in said
    ]
