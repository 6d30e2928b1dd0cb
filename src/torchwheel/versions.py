"""Dotted versions: their numbers, ranges such as ``>=12.8,<13``, and installed versions."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from email.message import Message
from email.parser import HeaderParser
from functools import lru_cache
from importlib.metadata import Distribution, distributions

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from torchwheel.reporting.errors import Problem

# Python does not convert more than 4,300 digits.
_LEADING = re.compile(r"\d{1,18}(?:\.\d{1,18}){0,20}", re.ASCII)
_RANGE = re.compile(r"(?:\d{1,18}(?!\d)|[\s.,*<>=!~])*", re.ASCII)


@lru_cache(maxsize=1024)
def parse_numbers(version: str, count: int | None = None) -> tuple[int, ...]:
    """The numbers at the beginning of a version: (12, 9, 86) for ``12.9.86-1``; empty if there is none.

    With ``count``, that many numbers, padded with zeros: (12, 9) for 2, and (12, 0) for ``12``.
    """
    match = _LEADING.match(version)
    found = tuple(int(part) for part in match[0].split(".")) if match else ()
    return found if count is None or not found else (found + (0,) * count)[:count]


def is_version(text: object) -> bool:
    """Whether it is the text of a version that pip accepts (PEP 440)."""
    # Python raises another ValueError for more than 4,300 digits.
    with suppress(ValueError):
        return isinstance(text, str) and bool(Version(text))
    return False


def at_least(version: str, least: str) -> bool:
    """Whether a version is not below another; missing numbers count as zeros."""
    length = max(len(parse_numbers(version)), len(parse_numbers(least)))
    return parse_numbers(version, length) >= parse_numbers(least, length)


def format_span(versions: Sequence[str]) -> str:
    """``12.8``, or ``12.8 to 13.4``."""
    return versions[0] if len(versions) == 1 else f"{versions[0]} to {versions[-1]}"


def major_minor(version: str) -> str:
    """``12.9`` of ``12.9.86``."""
    return ".".join(version.split(".")[:2])


def cpython_abi(python: str) -> str:
    """``cp313t`` of ``3.13t``."""
    return f"cp{python.replace('.', '')}"


@dataclass(frozen=True)
class ReleaseRange:
    """PEP 440 specifiers for versions that consist of numbers only."""

    text: str
    specifiers: SpecifierSet

    def contains(self, version: str) -> bool:
        return self.specifiers.contains(version, prereleases=True)

    def __str__(self) -> str:
        return self.text


def read_range(text: str) -> ReleaseRange | None:
    """Read a range such as ``>=12.8,<13`` or ``==12.9.*``; None if it is not one. An empty text means every version."""
    if not _RANGE.fullmatch(text):
        return None
    with suppress(InvalidSpecifier):
        return ReleaseRange(text, SpecifierSet(text))
    return None


def wheel_spelling(name: str) -> str:
    # https://packaging.python.org/specifications/binary-distribution-format/#escaping-and-unicode
    return canonicalize_name(name).replace("-", "_")


def installed_versions(folders: Sequence[str] | None = None) -> dict[str, str]:
    """Read canonical name -> version of distributions in ``folders``, else on ``sys.path``; of several the first."""
    found: dict[str, str] = {}
    for distribution in distributions(path=sys.path if folders is None else list(folders)):
        headers = _read_headers(distribution)
        name, version = headers["Name"], headers["Version"]
        # A damaged installation leaves a .dist-info without METADATA, or an empty one.
        if name and version:
            found.setdefault(canonicalize_name(name), version)
    return found


def _read_headers(distribution: Distribution) -> Message:
    """Read the headers of METADATA, PKG-INFO or an egg-info file, without the description, which is most of it."""
    texts = map(distribution.read_text, ("METADATA", "PKG-INFO", ""))
    text = next(filter(None, texts), "")
    return HeaderParser().parsestr(text.partition("\n\n")[0])


def malformed_requirements(requires: Iterable[str], origin: str) -> list[Problem]:
    """Report invalid PEP 508 requirements, such as pip's options, which pip would accept from any list."""
    problems = []
    for text in requires:
        try:
            if text.splitlines() not in ([text], []):
                raise InvalidRequirement("it has more than one line")
            if marker := Requirement(text).marker:
                marker.evaluate()
        except (InvalidRequirement, UndefinedComparison, UndefinedEnvironmentName, RecursionError) as error:
            reason = str(error).splitlines()[0]
            problems.append(Problem.of("malformed-requirement", origin=origin, text=text, reason=reason))
    return problems


def requirements_met(requires: Iterable[str]) -> bool:
    """Whether the distributions on ``sys.path`` meet all requirements whose markers apply."""
    installed = installed_versions()
    applying = (one for one in map(Requirement, requires) if one.marker is None or one.marker.evaluate())
    found = ((one, installed.get(canonicalize_name(one.name))) for one in applying)
    return all(has is not None and one.specifier.contains(has, prereleases=True) for one, has in found)


def unmet_requirements(requires: Iterable[str], folders: Sequence[str]) -> list[str]:
    """The requirements, which must be valid, and transitive ones that no distribution in ``folders`` meets."""
    installed: dict[str, Distribution] = {}
    for distribution in distributions(path=list(folders)):
        if name := _read_headers(distribution)["Name"]:
            installed.setdefault(canonicalize_name(name), distribution)
    pending = [(Requirement(text), "") for text in requires]
    seen: set[tuple[str, str]] = set()
    unmet = []
    while pending:
        requirement, extra = pending.pop(0)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        found = installed.get(canonicalize_name(requirement.name))
        if found is None or not requirement.specifier.contains(found.version, prereleases=True):
            unmet.append(str(requirement))
            continue
        for wanted in {"", *requirement.extras}:
            if (mark := (canonicalize_name(requirement.name), wanted)) not in seen:
                seen.add(mark)
                pending += [(one, wanted) for one in _requirements_of(found)]
    return unmet


def _requirements_of(distribution: Distribution) -> Iterator[Requirement]:
    """Yield the requirements of a distribution; old ones have lines that are not PEP 508, which installers skip."""
    for text in distribution.requires or ():
        with suppress(InvalidRequirement):
            yield Requirement(text)
