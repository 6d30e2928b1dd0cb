"""Changing single fields of METADATA and WHEEL, and what a wheel requires; every other byte stays as it is.

Both files are written like the headers of an e-mail: a field may go on in lines that start with white space, and in
METADATA an empty line ends the fields.
Source: https://packaging.python.org/specifications/core-metadata/
"""

from __future__ import annotations

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

    def replacing(
        self, name: str, values: Sequence[str], replaced: Collection[str] | None = None
    ) -> MetadataText:
        """The text with fields of a name replaced.

        Args:
            values: the new fields, in the place of the first that is replaced, else after the last of that
                name, else at the end.
        """
        same = [index for index, field in enumerate(self.fields) if field.name == name.lower()]
        removed = [index for index in same if replaced is None or self.fields[index].value in replaced]
        place = removed[0] if removed else same[-1] + 1 if same else len(self.fields)
        away = frozenset(removed)
        kept = [field for index, field in enumerate(self.fields) if index not in away]
        before = place - sum(index < place for index in removed)
        new = [self._new(name, value) for value in values]
        return MetadataText((*kept[:before], *new, *kept[before:]), self.rest)

    def _new(self, name: str, value: str) -> Field:
        ending = b"\r\n" if self.fields and self.fields[0].raw.endswith(b"\r\n") else b"\n"
        return Field(f"{name}: {value}".encode() + ending, name.lower(), value)


def read_metadata_text(archive: WheelArchive, name: str) -> MetadataText:
    data = archive.read(f"{archive.dist_info}/{name}", TEXT_BYTES)
    fields = takewhile(lambda line: line not in _EMPTY, data.splitlines(keepends=True))
    if sum(1 for _ in fields) > FIELD_LINES:
        raise oversized_error(f"{name} has more than {FIELD_LINES:,} lines of fields", str(archive.path))
    return parse_metadata_text(data)


def parse_metadata_text(data: bytes) -> MetadataText:
    # Not with email.parser, which does not give back the bytes: it folds long lines when it writes a message.
    lines = data.splitlines(keepends=True)
    end = next((index for index, line in enumerate(lines) if line in _EMPTY), len(lines))
    return MetadataText(tuple(map(_parse_field, _split_fields(lines[:end]))), b"".join(lines[end:]))


def _split_fields(lines: Sequence[bytes]) -> Iterator[bytes]:
    start = 0
    for index in range(1, len(lines) + 1):
        if index == len(lines) or lines[index][:1] not in (b" ", b"\t"):
            yield b"".join(lines[start:index])
            start = index


def _parse_field(raw: bytes) -> Field:
    name, colon, value = raw.decode("utf-8", "replace").partition(":")
    return Field(raw, name.strip().lower() if colon else "", " ".join(value.split()))


def with_bounds(
    metadata: MetadataText, bounds: Sequence[str], origin: str, skip_check: Collection[str] = ()
) -> MetadataText:
    """METADATA that also requires the bounds.

    What METADATA requires of the same distribution without conditions becomes one requirement together with the
    bound: ``torch>=2.4`` and ``torch>=2.14,<2.15`` become ``torch<2.15,>=2.14,>=2.4``. Requirements with a marker, and
    those of a URL, stay as they are beside it.

    Args:
        bounds: requirements without markers, at most one for each distribution.
    """
    found = find_contradictions(metadata.values(_FIELD), bounds, origin)
    stop_on(problem for problem in found if problem.id not in skip_check)
    for bound in map(Requirement, bounds):
        plain = _plain_requirements(metadata.values(_FIELD), bound)
        metadata = metadata.replacing(_FIELD, [str(_combine_requirements(bound, plain.values()))], plain)
    return metadata


def find_contradictions(
    requires_dist: Iterable[str], bounds: Sequence[str], origin: str
) -> Iterator[Problem]:
    """Yield an error for each bound that no version satisfies together with what METADATA requires.

    Args:
        requires_dist: the values of METADATA's Requires-Dist, or a project's ``dependencies``.
    """
    values = tuple(requires_dist)
    for bound in map(Requirement, bounds):
        plain = _plain_requirements(values, bound)
        if _combine_requirements(bound, plain.values()).specifier.is_unsatisfiable():
            required = " and ".join(map(str, plain.values()))
            yield Problem.of(
                "contradictory-requirements", origin=origin, required=required, bound=bound, name=bound.name
            )


def _combine_requirements(bound: Requirement, required: Iterable[Requirement]) -> Requirement:
    combined = Requirement(str(bound))
    for requirement in required:
        combined.specifier &= requirement.specifier
        combined.extras |= requirement.extras
    return combined


def missing_bounds(requires_dist: Iterable[str], bounds: Sequence[str]) -> tuple[str, ...]:
    values = tuple(requires_dist)
    return tuple(
        bound
        for bound in bounds
        if not any(
            set(Requirement(bound).specifier) <= set(requirement.specifier)
            for requirement in _plain_requirements(values, Requirement(bound)).values()
        )
    )


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


def constraints_text(name: str, version: str) -> str:
    """Text of a constraints file (``pip install -c FILE ...``) that admits exactly one version.

    Source of the reasons: https://packaging.python.org/specifications/version-specifiers/#version-matching
    """
    public = version.partition("+")[0]
    return (
        f"# The label after + is part of the pin: {name}=={public} matches builds for any hardware, and of\n"
        "# these pip takes the label that sorts last: +cu130 before +cu129.sm120, and sm90 before sm120.\n"
        f"{name}=={version}\n"
    )


def write_constraints(wheel: Path) -> Path:
    name, version, _tags = parse_file_name(wheel)
    path = wheel.with_name(f"constraints-{name}-{version}.txt")
    with output_file(path) as stream:
        stream.write(constraints_text(name, version).encode("utf-8"))
    return path
