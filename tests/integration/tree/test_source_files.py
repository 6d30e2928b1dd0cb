"""Which files of a tree are its source, with git and without.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

from pathlib import Path

from torchwheel.tree.source_files import source_files
from tree.small_trees import git
from unit.tree.test_source_files import files, needs_git, repository, write


@needs_git
def test_every_submodule_has_rules_of_its_own(tmp_path: Path) -> None:
    inmost = repository(tmp_path / "inmost", ["deep.cpp", "version.py"])
    inner = repository(tmp_path / "inner", [".gitignore", "lib.cpp"])
    git(inner, "submodule", "add", "-q", inmost, "deps/inmost")
    git(inner, "commit", "-q", "-m", "two")
    tree = repository(tmp_path / "tree", ["a.cpp"])
    git(tree, "submodule", "add", "-q", inner, "third_party/inner")
    git(tree, "submodule", "update", "-q", "--init", "--recursive")
    write(tree / "third_party/inner", ["by_the_tree_alone.txt", "new.cpp", "deps/inmost/new.cpp"])
    below = "third_party/inner"
    assert files(tree) == {
        ".gitmodules",
        "a.cpp",
        *(f"{below}/{name}" for name in (".gitignore", ".gitmodules", "lib.cpp", "new.cpp")),
        *(f"{below}/deps/inmost/{name}" for name in ("deep.cpp", "new.cpp", "version.py")),
    }
    assert set(source_files(tree).checkouts) == {"", below, f"{below}/deps/inmost"}
