"""Builds by a clock that was wrong: it is set back between two builds, or the tree's files are from the future."""

from __future__ import annotations

import os
import re
import struct
import zipfile
from pathlib import Path

import pytest

from backend.builds import (
    GENERATIONS,
    check,
    clean_environment,
    compiled,
    log_of,
    make_tree,
    torchwheel,
    wrapper,
)

DAY = 86_400 * 10**9
LOGGED = re.compile(r"(?m)^(\d+\t\d+\t)(\d+)")
SOURCE = "c10/util/Exception.cpp"
COMPILED = "util/Exception.cpp"
IN_PLACE = ("--target", "cpu", "--disable", "tests,mpi,openmp", "-Cversion=2.6.0", "-Cbuild-env=current")


def put_off(folder: Path) -> None:
    """Let all files below a folder be as if a clock that was a day ahead had made them; ninja's logs say so too."""
    for log in folder.rglob(".ninja_log"):
        log.write_text(LOGGED.sub(lambda line: line[1] + str(int(line[2]) + DAY), log.read_text("utf-8")))
    for deps in folder.rglob(".ninja_deps"):
        # A line, a number, and records: a length, whose highest bit tells dependencies; an output's number, its time.
        content = bytearray(deps.read_bytes())
        at = content.index(b"\n") + 5
        while at < len(content):
            (length,) = struct.unpack_from("<I", content, at)
            if length >> 31:
                (time,) = struct.unpack_from("<q", content, at + 8)
                struct.pack_into("<q", content, at + 8, time + DAY)
            at += 4 + (length & 0x7FFFFFFF)
        deps.write_bytes(content)
    for path in [folder, *folder.rglob("*")]:
        time = path.lstat().st_mtime_ns + DAY
        os.utime(path, ns=(time, time), follow_symlinks=False)


def edit(tree: Path, word: str) -> None:
    for name, text in {
        SOURCE: 'extern const char torch_word[]; const char torch_word[] = "{}";\n',
        "CMakeLists.txt": "# {}\n",
        "torch/cuda/__init__.py": "WORD = '{}'\n",
    }.items():
        with (tree / name).open("a", encoding="utf-8") as stream:
            stream.write(text.format(word))


def build(project: Path, cache: Path, *more: str) -> list[str]:
    """Build, and return what torchwheel itself says of clocks."""
    environment = clean_environment(cache, CCACHE_DISABLE="1")
    said = check(*torchwheel("build", project, "-o", project / "dist", *more), cwd=project, env=environment)
    return [line for line in said.splitlines() if "clock" in line]


def holding(folder: Path, word: str) -> set[str]:
    """The files of the wheel that hold a word."""
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if word.encode() in archive.read(name)}


@pytest.mark.parametrize("generation", GENERATIONS)
def test_what_is_changed_after_a_clock_was_set_back_is_compiled(generation: str, tmp_path: Path) -> None:
    tree, cache = make_tree(generation, tmp_path / "tree"), tmp_path / "cache"
    project = wrapper(tmp_path / "project", tree, **{"build-env": '"current"'})
    assert build(project, cache) == []
    put_off(cache / "builds")
    edit(tree, "first word")
    (said,) = build(project, cache)
    assert said.startswith("torchwheel: the clock was set back: ")
    assert compiled(cache) == [COMPILED]
    assert {"torch/lib/libc10.so", "torch/cuda/__init__.py"} <= holding(project / "dist", "first word")
    # And never again.
    assert build(project, cache) == []
    assert compiled(cache) == []


@pytest.mark.parametrize("generation", GENERATIONS)
def test_files_from_the_future_are_compiled_once(generation: str, tmp_path: Path) -> None:
    tree, cache = make_tree(generation, tmp_path / "tree"), tmp_path / "cache"
    put_off(tree)
    project = wrapper(tmp_path / "project", tree, **{"build-env": '"current"'})
    assert build(project, cache) == []
    edit(tree, "second word")
    put_off(tree)
    assert build(project, cache) == []
    assert compiled(cache) == [COMPILED]
    assert {"torch/lib/libc10.so", "torch/cuda/__init__.py"} <= holding(project / "dist", "second word")
    assert build(project, cache) == []
    assert compiled(cache) == []


def test_where_the_source_is_not_copied_all_is_compiled_again(tmp_path: Path) -> None:
    """Nothing tells whether a source was edited before or after an object got its time from the future."""
    tree, cache = make_tree("setup.py", tmp_path / "tree"), tmp_path / "cache"
    check(*torchwheel("adopt", tree), cwd=tmp_path, env=clean_environment(cache))
    assert build(tree, cache, *IN_PLACE) == []
    every = compiled(cache)
    put_off(log_of(cache).parent)
    put_off(tree / "build")
    edit(tree, "third word")
    (said,) = build(tree, cache, *IN_PLACE)
    assert said.endswith("; all is compiled again")
    assert compiled(cache) == every
    assert {"torch/lib/libc10.so", "torch/cuda/__init__.py"} <= holding(tree / "dist", "third word")
    assert build(tree, cache, *IN_PLACE) == []
    assert compiled(cache) == []
