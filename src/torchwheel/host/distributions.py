"""What is installed in this interpreter's environment, read off the names of its ``*.dist-info`` folders.

importlib.metadata says the same, but importing it takes a tenth of the time that a whole plan may take.
"""

from __future__ import annotations

import os
import re
import sys

_INFO_FOLDER = re.compile(r"(?P<name>[^-]+)-(?P<version>[^-]+)(?:-py\d[\d.]*)?\.(?:dist|egg)-info")
_NUMBERS = re.compile(r"\d+(?:\.\d+)*", re.ASCII)
_ENDING_ZEROS = re.compile(r"(?:\.0+)+$")
_NAME_AND_MINIMUM = re.compile(r"\s*(?P<name>[\w.-]*\w)\s*(?:>=\s*(?P<minimum>[\w.]+)\s*)?")


def installed_versions() -> dict[str, str]:
    """Canonical name -> version of what lies on ``sys.path``; of several the first, which is imported."""
    found: dict[str, str] = {}
    for place in filter(os.path.isdir, sys.path):
        for name in os.listdir(place):  # noqa: PTH208 - a tenth of the time of Path.iterdir
            if match := _INFO_FOLDER.fullmatch(name):
                found.setdefault(canonical_name(match["name"]), match["version"])
    return found


def canonical_name(name: str) -> str:
    """The one spelling of a distribution's name (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def is_met(requirement: str, installed: dict[str, str]) -> bool:
    """Whether a PEP 508 requirement is satisfied; one whose marker does not apply always is.

    Args:
        requirement: the requirement.
        installed: from :func:`installed_versions`.
    """
    # Nearly every build requirement has this form, and packaging.requirements is slow to import.
    plain = _NAME_AND_MINIMUM.fullmatch(requirement)
    if plain is None:
        return _is_met_in_full(requirement, installed)
    version = installed.get(canonical_name(plain["name"]))
    if version is None or plain["minimum"] is None:
        return version is not None
    return _is_at_least(version, plain["minimum"])


def _is_at_least(version: str, minimum: str) -> bool:
    if _NUMBERS.fullmatch(version) and _NUMBERS.fullmatch(minimum):
        return _numbers(version) >= _numbers(minimum)
    from packaging.version import Version

    return Version(version) >= Version(minimum)


def _numbers(version: str) -> list[int]:
    """The numbers of a version, without the zeros at its end: ``1.0`` is ``1``."""
    return [int(number) for number in _ENDING_ZEROS.sub("", version).split(".")]


def _is_met_in_full(text: str, installed: dict[str, str]) -> bool:
    from packaging.requirements import Requirement

    requirement = Requirement(text)
    if requirement.marker is not None and not requirement.marker.evaluate():
        return True
    version = installed.get(canonical_name(requirement.name))
    return version is not None and requirement.specifier.contains(version, prereleases=True)
