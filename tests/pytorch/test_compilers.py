"""The first compilers of a C++ standard, and what a release needs: its own word or its standard's."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchwheel.errors import TorchwheelError
from torchwheel.pytorch.compilers import (
    COMPILERS,
    CompilerNeed,
    Compilers,
    cxx_supports,
    load_cxx_supports,
)

SOURCE = "https://example.org/compilers"


def test_the_first_compilers_of_a_standard() -> None:
    assert cxx_supports() == {
        (17, "gcc"): "7",
        (17, "clang"): "5",
        (17, "msvc"): "19.11",
        (20, "gcc"): "10",
        (20, "clang"): "10",
        (20, "msvc"): "19.29",
    }


def test_a_newer_standard_needs_newer_compilers() -> None:
    for compiler in COMPILERS:
        older, newer = (cxx_supports()[standard, compiler] for standard in (17, 20))
        assert [int(part) for part in older.split(".")] < [int(part) for part in newer.split(".")]


def test_what_a_release_states_counts_unless_its_standard_needs_more() -> None:
    needs = Compilers(cxx_standard=20, gcc="11.3", clang=None, msvc="19.20", source=SOURCE)
    assert {compiler: needs.needed(compiler) for compiler in (*COMPILERS, "unknown")} == {
        "gcc": CompilerNeed("11.3", None),
        "clang": CompilerNeed("10", 20),
        "msvc": CompilerNeed("19.29", 20),
        "unknown": None,
    }


def test_what_is_stated_just_so_is_the_release_s_own_word() -> None:
    needs = Compilers(cxx_standard=20, gcc="10", clang="10.0", msvc="19.29", source=SOURCE)
    assert [needs.needed(compiler) for compiler in COMPILERS] == [
        CompilerNeed("10", None),
        CompilerNeed("10.0", None),
        CompilerNeed("19.29", None),
    ]


def test_every_wrong_entry_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "cxx_standards.toml"
    path.write_text(
        """
        [[support]]
        standard = 17
        compiler = "gcc"
        minimum = "7"
        source = "https://example.org/gcc"

        [[support]]
        standard = 17
        compiler = "gcc"
        minimum = "8"
        source = "https://example.org/gcc"

        [[support]]
        standard = 17
        compiler = "icc"
        minimum = "19"
        source = "https://example.org/icc"

        [[support]]
        standard = 17
        compiler = "msvc"
        flag = "/std:c++17"
        source = "a friend"
        """,
        encoding="utf-8",
    )
    with pytest.raises(TorchwheelError) as caught:
        load_cxx_supports(path)
    assert [(problem.what, problem.remedy) for problem in caught.value.problems] == [
        ("C++17 in 'gcc': is there twice", "leave one out"),
        ("C++17 in 'icc': there is no such compiler", "use one of gcc, clang, msvc"),
        ("C++17 in 'msvc': unknown key 'flag'", "use only compiler, minimum, source, standard"),
        ("C++17 in 'msvc': 'a friend' is no source", "give a link, or 'PyPI: ' and what was read there"),
        ("C++17 in 'msvc': 'minimum' is missing", "name the first version that knows the standard"),
        ("C++17: nothing is said of clang, msvc", "add an entry for each"),
    ]


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cxx_standards.toml"
    path.write_text("", encoding="utf-8")
    with pytest.raises(TorchwheelError, match=r"there is no C\+\+ standard"):
        load_cxx_supports(path)
