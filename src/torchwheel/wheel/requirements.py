"""Adding bounds to what a wheel requires."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from torchwheel.errors import Problem, TorchwheelError
from torchwheel.wheel.metadata_text import MetadataText

_FIELD = "Requires-Dist"


def with_bounds(metadata: MetadataText, bounds: Sequence[str], origin: str) -> MetadataText:
    """METADATA that also requires the bounds.

    What METADATA requires of the same distribution without conditions becomes one requirement together with the
    bound: ``torch>=2.4`` and ``torch>=2.14,<2.15`` become ``torch<2.15,>=2.14,>=2.4``. Requirements with a marker, and
    those of a URL, stay as they are beside it.

    Args:
        metadata: METADATA.
        bounds: requirements without markers, at most one for each distribution.
        origin: the wheel, for messages.

    Raises:
        TorchwheelError: no version satisfies a bound together with what METADATA requires.
    """

    problems = []
    for bound in map(Requirement, bounds):
        plain = _plain(metadata.values(_FIELD), bound)
        combined = Requirement(str(bound))
        for requirement in plain.values():
            combined.specifier &= requirement.specifier
            combined.extras |= requirement.extras
        if not is_satisfiable(combined.specifier):
            problems.append(_contradiction(bound, plain.values(), origin))
        metadata = metadata.replacing(_FIELD, [str(combined)], plain)
    if problems:
        raise TorchwheelError(problems)
    return metadata


def missing_bounds(requires_dist: Iterable[str], bounds: Sequence[str]) -> tuple[str, ...]:
    """The bounds that no requirement without conditions has.

    Args:
        requires_dist: the values of METADATA's Requires-Dist.
        bounds: requirements without markers, as :func:`with_bounds` takes them.
    """

    values = tuple(requires_dist)
    return tuple(
        bound
        for bound in bounds
        if not any(
            set(Requirement(bound).specifier) <= set(requirement.specifier)
            for requirement in _plain(values, Requirement(bound)).values()
        )
    )


def is_satisfiable(specifiers: SpecifierSet) -> bool:
    """Whether any version satisfies all specifiers.

    Where one does, so does one that they name, one right after the release of one, or the least of all.
    """

    candidates = {Version("0")}
    for specifier in specifiers:
        try:
            named = Version(specifier.version.removesuffix(".*"))
        except InvalidVersion:
            continue  # === takes any text
        candidates |= {named, Version(f"{named.base_version}.1")}
    return any(specifiers.contains(version, prereleases=True) for version in candidates)


def _plain(values: Iterable[str], bound: Requirement) -> dict[str, Requirement]:
    """Those that are about the bound's distribution, on every machine, and name versions."""

    parsed = {value: _parsed(value) for value in values}
    return {
        value: requirement
        for value, requirement in parsed.items()
        if requirement is not None
        and canonicalize_name(requirement.name) == canonicalize_name(bound.name)
        and requirement.marker is None
        and requirement.url is None
    }


def _parsed(value: str) -> Requirement | None:
    """A requirement; None for what is none, which stays as it is."""

    try:
        return Requirement(value)
    except InvalidRequirement:
        return None


def _contradiction(bound: Requirement, required: Iterable[Requirement], origin: str) -> Problem:
    said = " and ".join(str(requirement) for requirement in required)
    return Problem(
        id="contradictory-requirements",
        what=f"the project requires {said}, and this wheel needs {bound}",
        remedy=f"build with a {bound.name} that satisfies {said} (name it in build-system.requires), or widen what "
        "the project requires",
        why=f"a wheel works with the ABI of the {bound.name} that it was built with; no version satisfies both",
        origin=origin,
    )
