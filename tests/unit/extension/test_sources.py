from __future__ import annotations

import string
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limits import within_limits
from torchwheel.extension.extension_plan import Extension
from torchwheel.extension.sources import (
    find_sources,
    has_cuda_source,
    is_source_file,
    matches_pattern,
    pattern_folders,
    source_problems,
)
from torchwheel.reporting.errors import Problem

names = st.text(string.ascii_letters + "é _-", min_size=1, max_size=6).filter(lambda n: n.strip(" .") == n)


def test_the_folders_that_decide_what_matches(tmp_path: Path) -> None:
    for folder in ("csrc/cuda/deep", "csrc/.hidden", "other"):
        (tmp_path / folder).mkdir(parents=True)
    csrc = tmp_path / "csrc"
    assert pattern_folders(["csrc/*.cpp", "csrc/a.cpp"], tmp_path) == (csrc,)
    assert pattern_folders(["csrc/**/*.cu"], tmp_path) == (csrc, csrc / "cuda", csrc / "cuda" / "deep")
    assert pattern_folders(["*.cpp"], tmp_path) == (tmp_path,)


def test_sources_above_the_project(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "a.cpp").write_text("", encoding="utf-8")
    (tmp_path / "project").mkdir()
    assert find_sources(["../shared/*.cpp"], tmp_path / "project", "sources", "", []) == ["../shared/a.cpp"]


def test_what_a_link_leads_to_has_nothing_to_do_with_two_dots(tmp_path: Path) -> None:
    for name in ("project/common/a.cpp", "elsewhere/common/b.cpp", "elsewhere/csrc/c.cpp"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    project = tmp_path / "project"
    (project / "csrc").symlink_to("../elsewhere/csrc")
    assert find_sources(["csrc/../common/*.cpp"], project, "sources", "", []) == ["common/a.cpp"]
    assert is_source_file("csrc/../common/a.cpp", project)
    assert not is_source_file("csrc/../common/b.cpp", project)


@pytest.mark.parametrize("name", ["a\0.cpp", "x" * 300 + ".cpp", "a.cpp/b.cpp"])
def test_what_cannot_be_a_file_is_none(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.cpp").touch()
    assert not is_source_file(name, tmp_path)
    missing = Extension(name="pkg._C", sources=(f"{'x' * 300}/a.cpp",))
    assert [one.id for one in source_problems(missing, tmp_path, set(missing.sources))] == ["source-missing"]


def test_a_folder_above_the_project_that_cannot_be_quoted(tmp_path: Path) -> None:
    """Commands reach into the project by a link; what lies outside they name by its whole path."""
    project = tmp_path / "a;b" / "project"
    inside, outside = (Extension(name="pkg._C", sources=(name,)) for name in ("csrc/../x.cpp", "../x.cpp"))
    assert [problem.id for problem in source_problems(outside, project, ())] == ["unquotable-source"]
    assert not list(source_problems(inside, project, ()))


def test_builds_and_environments_are_no_part_of_the_project(tmp_path: Path) -> None:
    for folder in ("build", ".venv", "venv"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "k.cu").write_text("", encoding="utf-8")
    assert not has_cuda_source(tmp_path)
    (tmp_path / "csrc").mkdir()
    (tmp_path / "csrc" / "K.CU").write_text("", encoding="utf-8")
    assert has_cuda_source(tmp_path)


@pytest.mark.parametrize(
    ("source", "pattern", "expected"),
    [
        ("csrc/sm90/a.cu", "sm90/*.cu", True),
        ("csrc/sm90/a.cu", "a.cu", True),
        ("csrc/sm90/a.cu", "csrc/*.cu", False),
        ("csrc/sm90/a.cu", "csrc/**/*.cu", True),
        ("csrc/a.cu", "csrc/**/*.cu", True),
        ("csrc/deep/er/a.cu", "csrc/**/a.cu", True),
        ("csrc/deep/er/a.cu", "csrc/**", True),
        ("other/a.cu", "csrc/**/*.cu", False),
        ("/opt/lib/a.cu", "/opt/**/*.cu", True),
        ("csrc/A.cu", "csrc/a.cu", False),
    ],
)
def test_a_pattern_counts_from_the_right(source: str, pattern: str, expected: bool) -> None:
    assert matches_pattern(source, pattern) is expected


def test_many_stars_take_no_more_time_than_there_are_folders() -> None:
    within_limits(matches_pattern, "a/" * 5_000 + "a.cu", "b/" + "**/*/" * 20 + "a.cu")
    assert matches_pattern("a/" * 40 + "a.cu", "a/" + "**/" * 30 + "a.cu")
    assert not matches_pattern("a/" * 40 + "a.cu", "b/" + "**/" * 30 + "a.cu")


def test_two_stars_in_a_name_are_one(tmp_path: Path) -> None:
    (tmp_path / "a.cu").touch()
    (tmp_path / "b").mkdir()
    (tmp_path / "b/a.cu").touch()
    problems: list[Problem] = []
    assert find_sources(["**.cu", "b**/a***.cu"], tmp_path, "sources", "here", problems) == ["a.cu", "b/a.cu"]
    assert problems == []


@given(st.lists(names, min_size=1, max_size=4), st.sampled_from(["*.cu", "a/*", "*/b", "?", "a"]))
def test_without_two_stars_it_matches_as_in_pathlib(parts: list[str], pattern: str) -> None:
    source = "/".join(parts)
    assert matches_pattern(source, pattern) == PurePosixPath(source).match(pattern)


@pytest.mark.parametrize(
    "name",
    [
        *('a".cpp', "a;b.cpp", "a|b.cpp", "a\nb.cpp", "a\0b.cpp", "a\\b.cpp", "`touch a`.cpp"),
        *("$ENV{HOME}.cpp", "${A}.cpp", "$<1:a>.cpp", "$(touch a).cpp"),
    ],
)
def test_a_source_whose_name_cannot_be_quoted_is_refused(tmp_path: Path, name: str) -> None:
    extension = Extension(name="pkg._C", sources=(name, "a$b (c) 'd' #e.cpp"))
    assert [problem.id for problem in source_problems(extension, tmp_path, {name})] == ["unquotable-source"]
    depending = Extension(name="pkg._C", sources=("a.cpp",), depends=(name,))
    assert [problem.id for problem in source_problems(depending, tmp_path, ())] == ["unquotable-source"]
