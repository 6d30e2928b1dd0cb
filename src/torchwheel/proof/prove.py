"""The problems of a wheel that need nothing but its content."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

from packaging.metadata import ExceptionGroup, InvalidMetadata, Metadata, parse_email
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from torchwheel.proof.libraries import check_libraries
from torchwheel.reporting.errors import Problem
from torchwheel.wheel.archive import plain_file_name
from torchwheel.wheel.contents import WheelContents
from torchwheel.wheel.metadata import parse_requirements


def prove_contents(contents: WheelContents, provenance: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what `torchwheel verify` would reject in a wheel that was built, besides what its plan says."""
    yield from find_false_fields(contents)
    yield from check_libraries(replace(contents, manifest={"plan": provenance})).problems


# What installers act upon; what else is odd, the index says.
_DECISIVE = frozenset(
    {"metadata-version", "name", "version", "requires-python", "requires-dist", "provides-extra"}
)
_NEWEST_PATCH = 40
_CPYTHON = re.compile(r"cp(\d)(\d{1,3})")


def find_false_fields(contents: WheelContents) -> Iterator[Problem]:
    found = chain(_find_malformed(contents), _find_wheel_faults(contents), _find_python_faults(contents))
    for field, detail in found:
        yield Problem.of("field-not-valid", origin=contents.path, field=field, detail=detail)


def _find_malformed(contents: WheelContents) -> Iterator[tuple[str, str]]:
    """Yield the fields that packaging refuses, each with why.

    Source: https://packaging.python.org/specifications/core-metadata/
    """
    raw, unparsed = parse_email(bytes(contents.metadata))
    # An unknown field is another tool's, or a newer one.
    for name in unparsed:
        if name in _DECISIVE:
            yield f"METADATA's {name}", "it occurs twice, or is malformed"
    try:
        Metadata.from_raw(raw, validate=True)
    except ExceptionGroup as group:
        for error in group.exceptions:
            # Older backends write fields of a newer version.
            is_newer = "introduced in metadata version" in str(error)
            if isinstance(error, InvalidMetadata) and error.field in _DECISIVE and not is_newer:
                yield f"METADATA's {error.field}", str(error)
    except RecursionError:
        yield "METADATA's requires-dist", "it is nested too deeply"
    for requirement in parse_requirements(contents.metadata.requires_dist).values():
        if requirement.url:
            detail = f"{requirement.name} is required from an address, which indexes refuse"
            yield "METADATA's requires-dist", detail


def _find_wheel_faults(contents: WheelContents) -> Iterator[tuple[str, str]]:
    """Source: https://packaging.python.org/specifications/binary-distribution-format/."""
    wheel = contents.wheel
    versions, purelib = wheel.values("Wheel-Version"), wheel.values("Root-Is-Purelib")
    # An installer must refuse a higher major version.
    if len(versions) != 1 or not re.fullmatch(r"1\.\d{1,4}", versions[0]):
        yield "WHEEL's Wheel-Version", f"it is {' and '.join(versions) or 'missing'}, and known is 1.0"
    if len(purelib) != 1 or purelib[0].lower() not in ("true", "false"):
        yield "WHEEL's Root-Is-Purelib", f"it is {' and '.join(purelib) or 'missing'}, and not true or false"
    parts = plain_file_name(contents.path.name).removesuffix(".whl").split("-")
    named = parts[2] if len(parts) == 6 and parts[2][:1].isdigit() else ""
    # Not every backend writes the number into WHEEL.
    if contents.path.suffix == ".whl" and (said := "".join(wheel.values("Build"))) not in ("", named):
        yield "WHEEL's Build", f"it is {said}, and the file name says {named or 'nothing'}"


def _find_python_faults(contents: WheelContents) -> Iterator[tuple[str, str]]:
    """Yield the Pythons of the tags that Requires-Python excludes."""
    try:
        allowed = SpecifierSet(contents.metadata.single("Requires-Python") or "")
    except InvalidSpecifier:
        return
    for tag in contents.tags:
        python, abi, _ = tag.split("-")
        # The limited API and the ABI none are for later Pythons too.
        if (match := _CPYTHON.fullmatch(python)) and abi.startswith(python):
            versions = [f"{match[1]}.{match[2]}.{patch}" for patch in ("0rc1", *range(_NEWEST_PATCH))]
            if not any(allowed.contains(version, prereleases=True) for version in versions):
                yield "METADATA's requires-python", f"{allowed} excludes the Python of the tag {tag}"
