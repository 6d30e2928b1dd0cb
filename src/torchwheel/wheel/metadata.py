"""Reading and changing single fields of METADATA and WHEEL, and what a wheel requires; other bytes stay as they are.

Both files are written like the headers of an e-mail: https://packaging.python.org/specifications/core-metadata/.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from torchwheel.reporting.errors import Problem, stop_on
from torchwheel.system.files import output_file
from torchwheel.wheel.archive import WheelArchive, oversized_error, parse_file_name
from torchwheel.wheel.bounded_file import FIELD_LINES, TEXT_BYTES

_FIELD = "Requires-Dist"
_EMPTY = (b"\n", b"\r\n", b"\r")
# A field goes on in lines that start with white space.
_NEXT_FIELD = re.compile(rb"(?<=[\r\n])(?![ \t\n])")


@dataclass(frozen=True)
class Field:
    raw: bytes
    name: str
    value: str


@dataclass(frozen=True)
class MetadataText:
    fields: tuple[Field, ...]
    rest: bytes

    def __bytes__(self) -> bytes:
        return b"".join(field.raw for field in self.fields) + self.rest

    def values(self, name: str) -> tuple[str, ...]:
        return tuple(field.value for field in self.fields if field.name == name.lower())

    def single(self, name: str) -> str | None:
        """The value of a field; None where there is none, or two, which say nothing."""
        values = self.values(name)
        return values[0] if len(values) == 1 else None

    @property
    def requires_dist(self) -> tuple[str, ...]:
        return self.values(_FIELD)

    def replacing(
        self, name: str, values: Sequence[str], replaced: Collection[str] | None = None
    ) -> MetadataText:
        """The text with new fields, in the place of the first that is replaced, else behind those of that name."""
        same = [index for index, field in enumerate(self.fields) if field.name == name.lower()]
        removed = {index for index in same if replaced is None or self.fields[index].value in replaced}
        place = min(removed) if removed else same[-1] + 1 if same else len(self.fields)
        kept = [field for index, field in enumerate(self.fields[place:], place) if index not in removed]
        new = (self._new(name, value) for value in values)
        return MetadataText((*self.fields[:place], *new, *kept), self.rest)

    def _new(self, name: str, value: str) -> Field:
        ending = b"\r\n" if self.fields and self.fields[0].raw.endswith(b"\r\n") else b"\n"
        return Field(f"{name}: {value}".encode() + ending, name.lower(), value)


def read_metadata_text(archive: WheelArchive, name: str) -> MetadataText:
    data = archive.read(f"{archive.dist_info}/{name}", TEXT_BYTES)
    fields = takewhile(lambda line: line not in _EMPTY, data.splitlines(keepends=True))
    if sum(1 for _ in fields) > FIELD_LINES:
        raise oversized_error(f"{name} has more than {FIELD_LINES:,} lines of fields", archive.path)
    return parse_metadata_text(data)


def parse_metadata_text(data: bytes) -> MetadataText:
    # Not with email.parser, which does not give back the bytes: it folds long lines when it writes a message.
    lines = data.splitlines(keepends=True)
    end = next((index for index, line in enumerate(lines) if line in _EMPTY), len(lines))
    fields = filter(None, _NEXT_FIELD.split(b"".join(lines[:end])))
    return MetadataText(tuple(map(_parse_field, fields)), b"".join(lines[end:]))


def _parse_field(raw: bytes) -> Field:
    name, colon, value = raw.decode("utf-8", "replace").partition(":")
    return Field(raw, name.strip().lower() if colon else "", " ".join(value.split()))


def with_bounds(
    metadata: MetadataText, bounds: Sequence[str], origin: str, skip_check: Collection[str] = ()
) -> MetadataText:
    """METADATA that also requires the bounds, which have no markers, at most one for each distribution.

    What METADATA requires of the same distribution without conditions becomes one requirement together with the
    bound: ``torch>=2.4`` and ``torch>=2.14,<2.15`` become ``torch<2.15,>=2.14,>=2.4``. Requirements with a marker, and
    those of a URL, stay as they are beside it.
    """
    problems = []
    for bound in map(Requirement, bounds):
        plain, combined = _plain_requirements(metadata.requires_dist, bound), Requirement(str(bound))
        for requirement in plain.values():
            combined.specifier &= requirement.specifier
            combined.extras |= requirement.extras
        if combined.specifier.is_unsatisfiable():
            values = {"required": " and ".join(map(str, plain.values())), "bound": bound, "name": bound.name}
            problems.append(Problem.of("contradictory-requirements", origin=origin, **values))
        metadata = metadata.replacing(_FIELD, [str(combined)], plain)
    stop_on(problem for problem in problems if problem.id not in skip_check)
    return metadata


def missing_bounds(requires_dist: Collection[str], bounds: Sequence[str]) -> Iterator[str]:
    for bound in bounds:
        wanted = Requirement(bound)
        found = _plain_requirements(requires_dist, wanted).values()
        if not any(set(wanted.specifier) <= set(requirement.specifier) for requirement in found):
            yield bound


def _plain_requirements(values: Iterable[str], bound: Requirement) -> dict[str, Requirement]:
    """Those that are about the bound's distribution, on every machine, and name versions."""
    return {
        value: requirement
        for value, requirement in parse_requirements(values).items()
        if canonicalize_name(requirement.name) == canonicalize_name(bound.name)
        and requirement.marker is None
        and requirement.url is None
    }


def parse_requirements(values: Iterable[str]) -> dict[str, Requirement]:
    """The requirements by their text, without what is none."""
    found = {}
    for value in values:
        with suppress(InvalidRequirement, RecursionError):
            found[value] = Requirement(value)
    return found


def write_constraints(wheel: Path) -> Path:
    """Write a constraints file (``pip install -c FILE ...``) that admits exactly one version."""
    # Source: https://packaging.python.org/specifications/version-specifiers/#version-matching
    name, version, _tags = parse_file_name(wheel)
    public = version.partition("+")[0]
    text = (
        f"# The label after + is part of the pin: {name}=={public} matches builds for any hardware, and of\n"
        "# these pip takes the label that sorts last: +cu130 before +cu129.sm120, and sm90 before sm120.\n"
        f"{name}=={version}\n"
    )
    path = wheel.with_name(f"constraints-{name}-{version}.txt")
    with output_file(path) as stream:
        stream.write(text.encode())
    return path
