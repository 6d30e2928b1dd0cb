"""Builds of a tree whose files are from the future."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

from backend.builds import GENERATIONS, check, clean_environment, compiled, make_tree, torchwheel, wrapper

SOURCE = "c10/util/Exception.cpp"


def put_off(folder: Path) -> None:
    """Let all files below a folder be as if a clock that was a day ahead had made them."""
    for path in [folder, *folder.rglob("*")]:
        time = path.lstat().st_mtime_ns + 86_400 * 10**9
        os.utime(path, ns=(time, time), follow_symlinks=False)


def edit(tree: Path, word: str) -> None:
    for name, text in {
        SOURCE: 'extern const char torch_word[]; const char torch_word[] = "{}";\n',
        "CMakeLists.txt": "# {}\n",
        "torch/cuda/__init__.py": "WORD = '{}'\n",
    }.items():
        with (tree / name).open("a", encoding="utf-8") as stream:
            stream.write(text.format(word))


def build(project: Path, cache: Path) -> None:
    environment = clean_environment(cache, CCACHE_DISABLE="1")
    check(*torchwheel("build", project, "-o", project / "dist"), cwd=project, env=environment)


def holding(folder: Path, word: str) -> set[str]:
    """The files of the wheel that hold a word."""
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if word.encode() in archive.read(name)}


@pytest.mark.long
@pytest.mark.parametrize("generation", GENERATIONS)
def test_files_from_the_future_are_compiled_once(generation: str, tmp_path: Path) -> None:
    tree, cache = make_tree(generation, tmp_path / "tree"), tmp_path / "cache"
    put_off(tree)
    project = wrapper(tmp_path / "project", tree, **{"build-env": '"current"'})
    build(project, cache)
    edit(tree, "second word")
    put_off(tree)
    build(project, cache)
    assert compiled(cache) == ["util/Exception.cpp"]
    assert {"torch/lib/libc10.so", "torch/cuda/__init__.py"} <= holding(project / "dist", "second word")
    build(project, cache)
    assert compiled(cache) == []
