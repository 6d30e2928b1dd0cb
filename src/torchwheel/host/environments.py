"""Python environments: where those that torchwheel keeps lie, and whether the current one lasts."""

from __future__ import annotations

import hashlib
import re
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

# What pip and uv call the folders of their isolated environments.
_ISOLATED = re.compile(
    r"[\\/]pip-build-env-[^\\/]+[\\/](?:overlay|normal)(?:[\\/]|$)|[\\/]builds-v\d+[\\/]\.tmp"
)


def environment_folder(cache: Path, requires: Iterable[str], interpreter_tag: str) -> Path:
    """The folder of the environment for these requirements; it need not exist.

    Args:
        cache: torchwheel's cache folder.
        requires: PEP 508 requirement strings.
        interpreter_tag: e.g. ``cp311``.
    """
    digest = hashlib.sha256("\n".join([sys.base_prefix, *sorted(requires)]).encode()).hexdigest()[:12]
    return cache / "environments" / f"{interpreter_tag}-{digest}"


def interpreter_in(folder: Path | None) -> str:
    """The path of the interpreter in an environment's folder; the one that runs this if None."""
    if folder is None:
        return sys.executable
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


def import_folders(environment: Path | None) -> list[Path]:
    """The folders that an environment's Python imports from; this one's if None."""
    # pip's isolated environment is nothing but folders on sys.path.
    return [Path(folder) for folder in sys.path] if environment is None else [site_packages(environment)]


def is_isolated() -> bool:
    """Whether this process runs in an environment that its frontend makes anew for every build.

    pip's and uv's are known by their names; those of others, pypa/build among them, lie in the temporary folder.
    """
    temporary = Path(tempfile.gettempdir()).resolve()
    places = [sys.prefix, *(place for place in sys.path if "site-packages" in place)]
    return any(_ISOLATED.search(place) or temporary in Path(place).resolve().parents for place in places)
