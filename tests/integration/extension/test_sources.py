"""

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

import fnmatch
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from torchwheel.extension.sources import find_sources
from torchwheel.reporting.errors import Problem
from unit.extension.test_sources import names

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
