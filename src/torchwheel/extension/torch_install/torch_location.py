"""Locate the ``torch`` package that an import would load, with importlib and without importing it.

The finders of setuptools' and scikit-build-core's editable installs work too. In scikit-build-core's redirect mode the
Python files stay in the source tree and the build outputs (libraries, headers, ``version.py``) are in
``site-packages``; of a package's folders the one with ``version.py`` is used.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path

from torchwheel.system.paths import is_file


@dataclass(frozen=True)
class TorchLocation:
    """The folder of PyTorch's package, and whether it is built there, not installed from a wheel."""

    root: Path
    built_in_place: bool


def locate_torch(search_path: Sequence[str] | None = None) -> TorchLocation | None:
    """Locate the ``torch`` that an import would load; None if there is none.

    Args:
        search_path: folders in the form of ``sys.path``; None for what this interpreter itself would import.
    """
    # The finders remember what a folder contains, and packages may have been installed there since.
    importlib.invalidate_caches()
    try:
        spec = (
            importlib.util.find_spec("torch")
            if search_path is None
            else PathFinder.find_spec("torch", list(search_path))
        )
    except ValueError:  # some tests put a module of that name without a spec into sys.modules
        spec = None
    if spec is None or spec.origin is None:
        return None
    imported = Path(spec.origin).parent
    folders = map(Path, spec.submodule_search_locations or ())
    root = next((folder for folder in folders if is_file(folder / "version.py")), imported)
    return TorchLocation(root, root != imported or is_file(root.parent / "CMakeLists.txt"))
