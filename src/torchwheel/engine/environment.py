"""Which environment the tree's own backend runs in: the current one, or one that torchwheel keeps.

A frontend's isolated environment has a new path at every run. scikit-build-core throws its CMake cache away
when its own path changes (``.skbuild-info.json``), and include paths into the environment change, so nearly
everything is compiled again. torchwheel therefore installs what the tree's backend needs into an
environment of its own, named by the requirements and the interpreter (``engine.installation``).
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

FRONTEND_VARIABLES = frozenset(
    {"PYTHONPATH", "PYTHONHOME", "PYTHONNOUSERSITE", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__"}
)
"""Variables that lead an interpreter into the environment of the frontend or the user's shell."""

_INFO_FOLDER = re.compile(r"(?P<name>[^-]+)-(?P<version>[^-]+)(?:-py\d[\d.]*)?\.(?:dist|egg)-info")
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
    import hashlib

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


def requirements_met(requires: Iterable[str]) -> bool:
    """Whether this interpreter's installed distributions satisfy all requirements.

    Looks at the names of the ``*.dist-info`` folders only: importing importlib.metadata alone takes a
    quarter of the time that a plan may take.
    """
    installed = _installed_versions()
    return all(_is_met(text, installed) for text in requires)


def _is_met(text: str, installed: Mapping[str, str]) -> bool:
    from packaging.specifiers import SpecifierSet

    plain = _PLAIN_REQUIREMENT.fullmatch(text)
    if plain is not None:
        name, specifier = plain["name"], SpecifierSet(plain["specifier"])
    else:
        # Imported for what needs it only: it takes as long as reading all settings.
        from packaging.requirements import Requirement

        requirement = Requirement(text)
        if requirement.marker is not None and not requirement.marker.evaluate():
            return True
        name, specifier = requirement.name, requirement.specifier
    version = installed.get(_canonical(name))
    return version is not None and specifier.contains(version, prereleases=True)


def _installed_versions() -> dict[str, str]:
    """Canonical name -> version of what lies on ``sys.path``; of several the first, which is imported."""
    found: dict[str, str] = {}
    for place in filter(os.path.isdir, sys.path):
        for name in os.listdir(place):  # noqa: PTH208 - a tenth of the time of Path.iterdir
            if match := _INFO_FOLDER.fullmatch(name):
                found.setdefault(_canonical(match["name"]), match["version"])
    return found


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def is_short_lived() -> bool:
    """Whether this process runs in an environment that its frontend makes anew for every build.

    pip, build and uv are known by what they call theirs; others are taken to use the temporary folder.
    """
    import tempfile

    temporary = Path(tempfile.gettempdir()).resolve()
    places = [sys.prefix, *(place for place in sys.path if "site-packages" in place)]
    return any(_ISOLATED.search(place) or temporary in Path(place).resolve().parents for place in places)
