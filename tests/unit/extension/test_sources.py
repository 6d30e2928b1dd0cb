from __future__ import annotations

import string
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limits import within_limits
from put import put
from torchwheel.extension.sources import find_sources, has_cuda_source, matches_pattern, pattern_folders
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
    put(tmp_path / "shared" / "a.cpp")
    (tmp_path / "project").mkdir()
    assert find_sources(["../shared/*.cpp"], tmp_path / "project", "sources", "", []) == ["../shared/a.cpp"]


def test_a_pattern_may_be_absolute(tmp_path: Path) -> None:
    (tmp_path / "a.cpp").touch()
    assert find_sources([f"{tmp_path}/*.cpp"], tmp_path / "project", "sources", "", []) == ["../a.cpp"]


def test_what_a_link_leads_to_has_nothing_to_do_with_two_dots(tmp_path: Path) -> None:
    for name in ("project/common/a.cpp", "elsewhere/common/b.cpp", "elsewhere/csrc/c.cpp"):
        put(tmp_path / name)
    project = tmp_path / "project"
    (project / "csrc").symlink_to("../elsewhere/csrc")
    assert find_sources(["csrc/../common/*.cpp"], project, "sources", "", []) == ["common/a.cpp"]


def test_builds_and_environments_are_no_part_of_the_project(tmp_path: Path) -> None:
    for folder in ("build", ".venv", "venv"):
        put(tmp_path / folder / "k.cu")
    assert not has_cuda_source(tmp_path)
    put(tmp_path / "csrc" / "K.CU")
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
