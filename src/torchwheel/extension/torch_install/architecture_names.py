"""What the installed PyTorch's own torch.utils.cpp_extension takes a family's name for: ``Hopper`` is ``9.0+PTX``.

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
    """Whether a list of architectures names a family."""
    return _NAME.search(text) is not None


def named_architectures(torch_root: Path) -> Mapping[str, str]:
    """The families that an installed PyTorch knows, in its order: name -> list; empty where they cannot be read."""
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
    """A list of architectures with the families spelled out as PyTorch does it, one name after the other."""
    for name, architectures in names.items():
        text = text.replace(name, architectures)
    # Of "Hopper+PTX" PyTorch makes a second +PTX, and stops.
    return text.replace("+PTX+PTX", "+PTX")
