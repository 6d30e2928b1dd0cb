"""Libraries that exist for some processors only: ``machine_limits.toml``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from torchwheel.hardware._data_file import DataErrors
from torchwheel.preflight.sourced_rows import sourced_rows
from torchwheel.settings.values import truth

_FILE = Path(__file__).with_name("machine_limits.toml")
_KEYS = frozenset({"option", "value", "machines", "instead", "why"})


@dataclass(frozen=True)
class MachineLimit:
    """A value of an option that only some machines have.

    Attributes:
        option: the CMake option.
        value: its value, compared without case; empty for an option that is on.
        machines: ``platform.machine()`` of those that have it.
        instead: the value to use on others.
        why: the reason.
    """

    option: str
    value: str
    machines: tuple[str, ...]
    instead: str
    why: str

    def is_meant(self, value: str) -> bool:
        """Whether an option's value is the limited one."""
        return value.lower() == self.value.lower() if self.value else truth(value) is True


@cache
def machine_limits() -> tuple[MachineLimit, ...]:
    """The shipped list.

    Raises:
        TorchwheelError: the file is unreadable, or entries are wrong; all of them are named.
    """
    return sourced_rows(_FILE, "limit", _KEYS, "option", _limit)


def _limit(row: Mapping[str, Any], entry: str, errors: DataErrors) -> MachineLimit:
    return MachineLimit(
        option=errors.field(row, "option", str, entry),
        value=errors.field(row, "value", str, entry, default=""),
        machines=errors.strings(row, "machines", entry),
        instead=errors.field(row, "instead", str, entry),
        why=errors.field(row, "why", str, entry),
    )
