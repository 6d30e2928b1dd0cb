"""Which environment the tree's own backend runs in: the current one, or one that torchwheel keeps.

A frontend's isolated environment has a new path at every run. scikit-build-core throws its CMake cache away
when its own path changes (``.skbuild-info.json``), and include paths into the environment change, so nearly
everything is compiled again. torchwheel therefore installs what the tree's backend needs into an
environment of its own, named by the requirements and the interpreter (``engine.installation``).
"""

from __future__ import annotations

import hashlib
import re
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

FRONTEND_VARIABLES = frozenset(
    {"PYTHONPATH", "PYTHONHOME", "PYTHONNOUSERSITE", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__"}
)
"""Variables that lead an interpreter into the environment of the frontend or the user's shell."""

_PLAIN_REQUIREMENT = re.compile(r"\s*(?P<name>[\w.-]*\w)\s*(?P<specifier>(?:[<>=!~][^;@\[()]*)?)", re.ASCII)
# What pip, build and uv call the folders of their isolated environments.
_ISOLATED = re.compile(r"pip-build-env-|build-env-|builds-v\d")


def environment_folder(cache: Path, requires: Iterable[str], interpreter_tag: str) -> Path:
    """The folder of the environment for these requirements; it need not exist.

    Args:
        cache: torchwheel's cache folder.
        requires: PEP 508 requirement strings.
        interpreter_tag: e.g. ``cp311``.
    """

    digest = hashlib.sha256("\n".join([sys.base_prefix, *sorted(requires)]).encode()).hexdigest()[:12]
    return cache / "environments" / f"{interpreter_tag}-{digest}"


def interpreter_in(folder: Path) -> str:
    """The path of the interpreter in an environment's folder."""
    if sys.platform == "win32":
        return str(folder / "Scripts" / "python.exe")
    return str(folder / "bin" / "python")


def scripts_folder(interpreter: str) -> Path:
    """The folder of an environment's commands, such as cmake and ninja."""
    return Path(interpreter).parent


def site_packages(folder: Path) -> Path:
    """The folder of pure Python packages in an environment that was made by venv."""
    if sys.platform == "win32":
        return folder / "Lib" / "site-packages"
    return folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"


def is_short_lived() -> bool:
    """Whether this process runs in an environment that its frontend makes anew for every build.

    pip, build and uv are known by what they call theirs; others are taken to use the temporary folder.
    """
    temporary = Path(tempfile.gettempdir()).resolve()
    places = [sys.prefix, *(place for place in sys.path if "site-packages" in place)]
    return any(_ISOLATED.search(place) or temporary in Path(place).resolve().parents for place in places)
