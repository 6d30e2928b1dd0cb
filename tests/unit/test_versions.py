"""Dotted versions, and ranges of them held against PEP 440's reference implementation."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from torchwheel.versions import (
    at_least,
    major_minor,
    parse_numbers,
    read_range,
    requirements_met,
    unmet_requirements,
)

VERSIONS = st.lists(st.integers(0, 13), min_size=1, max_size=4).map(lambda parts: ".".join(map(str, parts)))
CLAUSES = st.builds(
    lambda operator, space, version, wildcard: operator + space + version + wildcard,
    st.sampled_from(["==", "!=", "<", "<=", ">", ">=", "~="]),
    st.sampled_from(["", " "]),
    VERSIONS,
    st.sampled_from(["", "", ".*"]),
)
RANGES = st.lists(CLAUSES, max_size=3).map(",".join)


@given(RANGES, VERSIONS)
def test_it_agrees_with_packaging(text: str, version: str) -> None:
    read = read_range(text)
    try:
        expected = SpecifierSet(text)
    except InvalidSpecifier:
        assert read is None
        return
    assert read is not None
    assert read.contains(version) is expected.contains(version, prereleases=True)


@pytest.mark.parametrize("text", ["12.8", ">=", ">=12.8rc1", "=12", "12.8 or later", ">=12.*", "~=12", "≥12"])
def test_what_is_no_range(text: str) -> None:
    assert read_range(text) is None


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("580.95.05", (580, 95, 5)),
        ("3.28.3-rc1", (3, 28, 3)),
        ("2.6.0a0+git1eba9b3", (2, 6, 0)),
        ("2.14.1+cu130.sm120", (2, 14, 1)),
        ("9.24.0.43", (9, 24, 0, 43)),
        ("13", (13,)),
        ("main", ()),
        ("v2.6", ()),
        ("", ()),
        ("1." * 500_000, (1,) * 21),
    ],
)
def test_numbers(version: str, expected: tuple[int, ...]) -> None:
    assert parse_numbers(version) == expected
    assert parse_numbers(version, 2) == ((*expected, 0)[:2] if expected else ())


def test_missing_numbers_count_as_zeros() -> None:
    assert at_least("580", "580.0")
    assert at_least("580.0", "580")
    assert at_least("3.10", "3.9")
    assert not at_least("12.2.0", "12.2.1")
    assert not at_least("12", "12.1")


def test_major_minor() -> None:
    assert [major_minor(text) for text in ("12.9.86", "12.9", "13", "2.14.1+cu130")] == [
        "12.9",
        "12.9",
        "13",
        "2.14",
    ]


def test_requirements_are_compared_with_what_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, file, name, version in (
        ("some_package-1.2.3.dist-info", "METADATA", "some-package", "1.2.3"),
        ("Old.Style-2.0-py3.11.egg-info", "PKG-INFO", "Old.Style", "2.0"),
        ("post-1.0.post1.dist-info", "METADATA", "post", "1.0.post1"),
    ):
        (tmp_path / folder).mkdir()
        text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        (tmp_path / folder / file).write_text(text, encoding="utf-8")
    for damaged in ("damaged-1.0.dist-info", "empty-1.0.dist-info"):
        (tmp_path / damaged).mkdir()
    (tmp_path / "empty-1.0.dist-info/METADATA").write_text("", encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(tmp_path / "nothing"), ""])
    assert requirements_met(["some-package", "Some.Package>=1.2", "old_style==2.0", "post>=1.0"])
    assert requirements_met(["absent; python_version < '3'"])
    assert not requirements_met(["absent; python_version >= '3'"])
    assert not requirements_met(["some-package>=1.3"])
    assert requirements_met(["some-package[extra] >= 1.2, < 2", " some-package ", "some-package (>=1.2)"])
    assert not requirements_met(["some-package[extra] >= 1.2, < 1.2.3"])
    assert not requirements_met(["some-package", "absent"])


def test_what_packages_require_themselves_is_looked_for_as_well(tmp_path: Path) -> None:
    packages = {
        "one": "Requires-Dist: two>=2\nRequires-Dist: three; python_version < '3'\nRequires-Dist: no requirement!\n",
        "two": "Requires-Dist: one\nRequires-Dist: four>1; extra == 'more'\n",
    }
    for name, requires in packages.items():
        (tmp_path / f"{name}-2.1.dist-info").mkdir()
        text = f"Metadata-Version: 2.1\nName: {name}\nVersion: 2.1\n{requires}"
        (tmp_path / f"{name}-2.1.dist-info" / "METADATA").write_text(text, encoding="utf-8")
    folders = [str(tmp_path)]
    assert unmet_requirements(["one", "two<3"], folders) == []
    assert unmet_requirements(["one==1", "two[more]", "five; python_version < '3'"], folders) == [
        "one==1",
        'four>1; extra == "more"',
    ]
    (tmp_path / "two-2.1.dist-info" / "METADATA").write_text("Name: two\nVersion: 1\n", encoding="utf-8")
    assert unmet_requirements(["one"], folders) == ["two>=2"]
