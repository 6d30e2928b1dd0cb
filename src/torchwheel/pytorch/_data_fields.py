"""Fields that the data files of this room share, checked on loading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torchwheel.hardware._data_file import DataErrors
from torchwheel.pytorch.version import is_dotted

# Where a wheel on PyPI is itself the source there is no document to link to.
_SOURCES = ("https://", "PyPI: ")


def read_source(row: Mapping[str, Any], entry: str, errors: DataErrors) -> str:
    """The public document (a link), or the wheel on PyPI, that a row stands on."""
    source = errors.field(row, "source", str, entry)
    if source and not source.startswith(_SOURCES):
        errors.add(f"{entry}: {source!r} is no source", "give a link, or 'PyPI: ' and what was read there")
    return source


def read_number(row: Mapping[str, Any], key: str, entry: str, errors: DataErrors) -> str | None:
    """The dotted version under ``key``, None if there is none."""
    number = errors.field(row, key, str, entry, default="")
    if number and not is_dotted(number):
        errors.add(f"{entry}: {key!r} is {number!r}, which is no version", "write it as in '12.6'")
        return None
    return number or None


def read_span(
    row: Mapping[str, Any], versions: Sequence[str], entry: str, errors: DataErrors
) -> tuple[str, ...]:
    """The releases from ``since`` to ``until``, both of which must be known; none if they are not."""
    ends = [errors.field(row, key, str, entry) for key in ("since", "until")]
    unknown = [end for end in ends if end and end not in versions]
    for end in unknown:
        errors.add(
            f"{entry}: there is no release {end!r}", "name one of releases.toml, with its patch number"
        )
    if unknown or not all(ends):
        return ()
    first, last = (versions.index(end) for end in ends)
    if first > last:
        errors.add(f"{entry}: 'since' is later than 'until'", "exchange them")
    return tuple(versions[first : last + 1])
