from __future__ import annotations

import fnmatch
import string
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from torchwheel.errors import Problem
from torchwheel.extension.source_patterns import find_sources, has_source, pattern_folders

names = st.text(string.ascii_letters + "é _-", min_size=1, max_size=6).filter(lambda n: n.strip(" .") == n)
files = st.tuples(names, st.sampled_from([".cpp", ".cu", ".h", ".c", ".txt", ""])).map("".join)


@given(st.sets(files, max_size=8), st.sampled_from(["*.cpp", "*.c*", "a*", "*"]))
def test_a_pattern_finds_what_fnmatch_finds_among_sources(there: set[str], pattern: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        for name in there:
            (project / name).write_text("", encoding="utf-8")
        problems: list[Problem] = []
        found = find_sources([pattern], project, "sources", "here", problems)
        sources = {name for name in there if name.endswith((".cpp", ".cu", ".c"))}
    expected = sorted(name for name in sources if fnmatch.fnmatchcase(name, pattern))
    assert found == expected
    assert [problem.id for problem in problems] == ([] if expected else ["no-source-matches"])


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


def test_builds_and_environments_are_no_part_of_the_project(tmp_path: Path) -> None:
    for folder in ("build", ".venv", "venv"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "k.cu").write_text("", encoding="utf-8")
    assert not has_source(tmp_path, ".cu")
    (tmp_path / "csrc").mkdir()
    (tmp_path / "csrc" / "k.cu").write_text("", encoding="utf-8")
    assert has_source(tmp_path, ".cu")
