"""Reproducible builds: the moment that SOURCE_DATE_EPOCH states, and the flags that nvcc gets where it is set.

Where it is set, what is built shall depend neither on the day nor on the folder. docs/reproducible.md says what is
promised of that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cache
from pathlib import Path

from torchwheel._toml import read_toml
from torchwheel.errors import refusal
from torchwheel.versions import numbers

VARIABLE = "SOURCE_DATE_EPOCH"

_UNSAFE = re.compile(r"[^A-Za-z0-9_./+-]")


def source_date(environment: Mapping[str, str]) -> datetime | None:
    """The moment that SOURCE_DATE_EPOCH names, in UTC; None if it is not set or empty.

    Source: https://reproducible-builds.org/specs/source-date-epoch/

    Raises:
        TorchwheelError: it is not a number of seconds since 1970.
    """
    value = environment.get(VARIABLE, "")
    if not value:
        return None
    try:
        if not (value.isascii() and value.isdigit()):
            raise ValueError
        return datetime.fromtimestamp(int(value), tz=timezone.utc)
    except (ValueError, OverflowError, OSError):
        raise refusal(
            "bad-source-date-epoch", origin=f"environment variable {VARIABLE}", value=value
        ) from None


@dataclass(frozen=True)
class NvccNaming:
    """nvcc's options by which an object depends neither on the process nor on the folder.

    Attributes:
        temporary_files: for every source.
        source: for one source, with ``{name}`` for what stands for its path.
    """

    temporary_files: str
    source: str

    def options_for(self, name: str) -> tuple[str, str]:
        """The options for a source; no two sources of a library may have one ``name``."""
        return self.temporary_files, self.source.format(name=_UNSAFE.sub("_", name))


@cache
def nvcc_naming(release: str) -> NvccNaming | None:
    """The options of a CUDA release's nvcc, ``"13.0"``; None for one that was never seen to have them."""
    table = read_toml(Path(__file__).with_name("reproducible.toml"))["nvcc"]
    if numbers(release) < numbers(table["since"]):
        return None
    return NvccNaming(table["names-temporary-files"], table["names-source"])
