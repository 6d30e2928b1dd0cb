"""Reproducible builds: SOURCE_DATE_EPOCH, and nvcc's flags if it is set; docs/reproducible.md has the guarantees."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cache
from pathlib import Path

from torchwheel.reporting.errors import refusal
from torchwheel.system.toml import read_toml
from torchwheel.versions import parse_numbers

VARIABLE = "SOURCE_DATE_EPOCH"

_UNSAFE = re.compile(r"[^A-Za-z0-9_./+-]")


def source_date(environment: Mapping[str, str]) -> datetime | None:
    """Read the time in SOURCE_DATE_EPOCH, in UTC; None if it is not set or empty.

    Source: https://reproducible-builds.org/specs/source-date-epoch/
    """
    value = environment.get(VARIABLE, "")
    if not value:
        return None
    try:
        if not (value.isascii() and value.isdigit()):
            raise ValueError
        return datetime.fromtimestamp(int(value), tz=timezone.utc)
    except (ValueError, OverflowError, OSError):
        origin = f"environment variable {VARIABLE}"
        raise refusal("bad-source-date-epoch", origin=origin, value=value) from None


@dataclass(frozen=True)
class NvccNaming:
    """nvcc's options that make an object independent of process and folder; ``{name}`` replaces a source's path."""

    temporary_files: str
    source: str

    def options_for(self, name: str) -> tuple[str, str]:
        """The options for a source; ``name`` must be unique in a library."""
        return self.temporary_files, self.source.format(name=_UNSAFE.sub("_", name))


@cache
def nvcc_naming(release: str) -> NvccNaming | None:
    """The options of a CUDA release's nvcc, ``"13.0"``; None if it is not known to have them."""
    table = read_toml(Path(__file__).with_name("reproducible.toml"))["nvcc"]
    if parse_numbers(release) < parse_numbers(table["since"]):
        return None
    return NvccNaming(table["names-temporary-files"], table["names-source"])
