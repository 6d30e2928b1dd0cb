"""SOURCE_DATE_EPOCH, the one moment that a reproducible build may state.

Source: https://reproducible-builds.org/specs/source-date-epoch/
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone

from torchwheel.errors import Problem, TorchwheelError

_VARIABLE = "SOURCE_DATE_EPOCH"


def source_date(environment: Mapping[str, str]) -> datetime | None:
    """The moment that SOURCE_DATE_EPOCH names, in UTC; None if it is not set or empty.

    Raises:
        TorchwheelError: it is not a number of seconds since 1970.
    """
    value = environment.get(_VARIABLE, "")
    if not value:
        return None
    try:
        if not (value.isascii() and value.isdigit()):
            raise ValueError
        return datetime.fromtimestamp(int(value), tz=timezone.utc)
    except (ValueError, OverflowError, OSError):
        raise TorchwheelError(
            Problem(
                id="bad-source-date-epoch",
                what=f"{_VARIABLE} is {value!r}",
                remedy="set it to whole seconds since 1970, e.g. $(git log -1 --format=%ct), or unset it",
                origin=f"environment variable {_VARIABLE}",
            )
        ) from None
