"""The installed PyTorch's own names of architecture families: ``Hopper`` is ``9.0+PTX``.

The lists change with releases, so they are read from the installed file, which is not imported.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from pathlib import Path

_FILE = Path("utils/cpp_extension.py")
_VARIABLE = "named_arches"
_NAME = re.compile(r"[A-Z][a-z]+")


def has_family_names(text: str) -> bool:
    """Whether a list of architectures contains a family's name."""
    return _NAME.search(text) is not None


def named_architectures(torch_root: Path) -> Mapping[str, str]:
    """Read the families of an installed PyTorch, in its order: name -> list; empty if they cannot be read."""
    try:
        tree = ast.parse((torch_root / _FILE).read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Assign)
                and isinstance(node.targets[0], ast.Name)
                and node.targets[0].id == _VARIABLE
            ):
                pairs = node.value.args[0] if isinstance(node.value, ast.Call) else node.value
                return {str(name): str(text) for name, text in dict(ast.literal_eval(pairs)).items()}
    except (OSError, SyntaxError, ValueError, TypeError, IndexError):
        pass
    return {}


def expand_families(text: str, names: Mapping[str, str]) -> str:
    """Expand the families in a list of architectures like PyTorch, one name after the other."""
    for name, architectures in names.items():
        text = text.replace(name, architectures)
    # PyTorch would expand "Hopper+PTX" with a second +PTX, and fail.
    return text.replace("+PTX+PTX", "+PTX")
