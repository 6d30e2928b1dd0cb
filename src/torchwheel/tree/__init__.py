"""What source tree is this: version, generation, the options it really has, its commit, its submodules."""

from __future__ import annotations

from torchwheel.tree.model import Generation, Option, Tree
from torchwheel.tree.reading import is_dirty, read_tree
from torchwheel.tree.source_facts import SOURCE_FACTS_FILE, source_facts_json
from torchwheel.tree.submodules import WrongCommit, wrong_commits

__all__ = [
    "SOURCE_FACTS_FILE",
    "Generation",
    "Option",
    "Tree",
    "WrongCommit",
    "is_dirty",
    "read_tree",
    "source_facts_json",
    "wrong_commits",
]
