"""Adopting a tree and undoing it: what changes in pyproject.toml, and that nothing else does.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchwheel.cli.adopt import adopt, adopt_text, release_text, undo
from torchwheel.system.toml import parse_toml
from unit.cli.test_adopt import contents, root

_GAP = st.sampled_from(["", "\n", "# a comment\n", "   \n", "\n# a # comment \t\n\n"])
_BUILD_SYSTEM = st.sampled_from(
    [
        "",
        "[build-system]\nrequires = []\n",
        '[build-system]\nrequires=["a",\n  "b",  # why\n]\nbuild-backend = "setuptools.build_meta"\n',
        "[build-system] # table\n  build-backend = 'scikit_build_core.build'  \n\trequires = [ ]\n",
        '[ "build-system" ]\nrequires = []\n"build-backend" = """setuptools.build_meta"""\n',
        "build-system = {requires = [], build-backend = 'setuptools.build_meta'}\n",
        'build-system.requires = []\nbuild-system.build-backend = "setuptools.build_meta"\n',
    ]
)
_TABLES = st.lists(
    st.sampled_from(
        [
            "[tool.black]\nline-length = 88\n",
            "[tool.isort]\nprofile='black' # isort\n",
            "[tool.torchwheel]\narch = '9.0'\n",
            "[tool.torchwheel.target.mine]\narch = '12.0'\n",
            "[project]\nname = 'torch'\ndescription = '''\nover\n\nlines'''\n",
            "[[tool.overrides]]\nx = [1,\n 2]\n[[tool.overrides]]\n",
            "[dependency-groups]\ndev = [{include-group = 'é'}]\n",
        ]
    ),
    unique=True,
)


@st.composite
def pyprojects(draw: st.DrawFn) -> str:
    """Files with the build system first or, where that is possible, anywhere else."""
    build_system, tables = draw(_BUILD_SYSTEM), draw(_TABLES)
    place = draw(st.integers(0, len(tables))) if build_system.startswith("[") else 0
    pieces = [*tables[:place], build_system, *tables[place:]]
    text = "".join(draw(_GAP) + piece for piece in pieces) + draw(_GAP)
    if draw(st.booleans()):
        text = text.rstrip("\n")
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    return text


@given(pyprojects())
def test_an_edit_changes_what_it_should_and_keeps_every_line(text: str) -> None:
    before = parse_toml(text, "")
    adopted = adopt_text(text, "")
    after = parse_toml(adopted, "")
    own = {key: before.get("build-system", {}).get(key) for key in ("build-backend", "backend-path")}

    assert after["build-system"].pop("build-backend") == "torchwheel_shim"
    assert after["build-system"].pop("backend-path") == ["backend"]
    assert after["tool"]["torchwheel"].pop("adopted") == {
        key: value for key, value in own.items() if value is not None
    }
    after["tool"] = {key: value for key, value in after["tool"].items() if key != "torchwheel" or value}
    expected = {"build-system": {"requires": ["setuptools>=40.8.0"]}, **before}
    expected["build-system"] = {k: v for k, v in expected["build-system"].items() if k != "build-backend"}
    assert {k: v for k, v in after.items() if v or k != "tool"} == expected

    lines = iter(adopted.splitlines(keepends=True))
    for line in text.splitlines(keepends=True)[:-1]:
        if "build-backend" not in line:
            assert line in lines, f"{line!r} is missing, or has moved"
    if "\r\n" in text:
        assert adopted.count("\n") == adopted.count("\r\n")

    released = release_text(adopted, "")
    assert parse_toml(released, "") == before


__all__ = ["root"]


KILLED = """
import os, signal, sys
from pathlib import Path
from torchwheel.cli.adopt import adopt
def killed_at(step, call):
    def counted(*arguments, **options):
        steps.append(call)
        if len(steps) == step:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*arguments, **options)
    return counted
steps = []
for name in ("mkdir", "write_bytes", "replace"):
    setattr(Path, name, killed_at(int(sys.argv[2]), getattr(Path, name)))
adopt(Path(sys.argv[1]))
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")
def test_killed_anywhere_it_is_adopted_and_undone_by_the_next(root: Path) -> None:
    before = contents(root)
    ended = []
    for step in range(1, 8):
        done = subprocess.run([sys.executable, "-c", KILLED, root, str(step)], check=False)
        ended.append(done.returncode)
        adopt(root)
        undo(root)
        assert (step, contents(root), (root / "backend").exists()) == (step, before, False)
    assert ended == [-9] * 6 + [0]
