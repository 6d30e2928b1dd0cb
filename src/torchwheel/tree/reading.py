"""From a path to a described PyTorch source tree."""

from __future__ import annotations

from pathlib import Path

from torchwheel.errors import TorchwheelError
from torchwheel.tree.build_system import read_build_system
from torchwheel.tree.cmake_options import read_declarations
from torchwheel.tree.git import has_changes
from torchwheel.tree.model import Tree
from torchwheel.tree.read import problem_with
from torchwheel.tree.source_facts import read_source_facts
from torchwheel.tree.submodules import missing_submodules


def read_tree(path: Path, origin: str = "") -> Tree:
    """Describe the PyTorch source tree at ``path``. Nothing in it is run and nothing is written.

    Args:
        origin: where the path was written (a file, ``-C``), for messages.

    Raises:
        TorchwheelError: there is no such folder, it is no PyTorch source tree, or torchwheel cannot build it.
    """
    problem = problem_with(path, origin)
    if problem is not None:
        raise TorchwheelError(problem)
    root = path.resolve()
    system = read_build_system(root)
    declarations = read_declarations(root)
    facts = read_source_facts(root)
    return Tree(
        root=root,
        name=system.name,
        version_text=(root / "version.txt").read_text(encoding="utf-8", errors="replace").strip(),
        generation=system.generation,
        backend=system.backend,
        backend_path=system.backend_path,
        requires=system.requires,
        options=declarations.options,
        known_names=declarations.known_names,
        minimum_cuda=declarations.minimum_cuda,
        minimum_cmake=declarations.minimum_cmake,
        minimum_python=system.minimum_python,
        commit=facts.commit,
        release_tag=facts.release_tag,
        missing_submodules=missing_submodules(root),
        adopted=system.adopted,
        identity=facts.identity,
    )


def is_dirty(tree: Tree) -> bool | None:
    """Whether tracked files of the tree differ from its commit; None when git cannot say.

    Not part of ``Tree``: it runs git, and on a tree of PyTorch's size that takes longer than all the rest.
    """
    return has_changes(tree.root)
