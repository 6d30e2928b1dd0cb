"""Machine code that may be in a wheel beside what was planned: ``extras.toml``, checked on loading."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from torchwheel._toml import read_toml
from torchwheel.errors import Problem, TorchwheelError
from torchwheel.hardware.architecture import Architecture

_FILE = Path(__file__).with_name("extras.toml")
_KEYS = {"planned", "found", "source"}


@dataclass(frozen=True)
class Extra:
    """An architecture that PyTorch's build adds where another one was asked for.

    Attributes:
        planned: what was asked for.
        found: what is added.
        source: who says so.
    """

    planned: Architecture
    found: Architecture
    source: str


def is_documented_extra(found: Architecture, planned: Iterable[Architecture]) -> bool:
    """Whether code for ``found`` is no surprise in a wheel for ``planned``.

    Architecture- and family-specific forms (``90a``, ``103f``) are added for single kernels whose
    instructions only they have, where an architecture of the same major revision was asked for; others are
    listed in ``extras.toml``.
    """
    if found.suffix:
        return any(found.major == architecture.major for architecture in planned)
    capabilities = {architecture.capability for architecture in planned}
    return any(extra.found == found and extra.planned in capabilities for extra in extras())


@cache
def extras() -> tuple[Extra, ...]:
    """The entries of the shipped file."""
    return load_extras(_FILE)


def load_extras(path: Path) -> tuple[Extra, ...]:
    """Read a file of extras.

    Raises:
        TorchwheelError: it is malformed; all bad entries are named.
    """
    problems: list[Problem] = []
    loaded: list[Extra] = []
    for number, entry in enumerate(read_toml(path).get("extra", ()), 1):
        extra = _read_entry(entry)
        if extra is None:
            problems.append(
                Problem(
                    id="malformed-data-file",
                    what=f"entry {number} of [[extra]] is {entry!r}",
                    remedy='give it `planned` and `found` as in "8.6", and a `source`, and nothing else',
                    origin=str(path),
                )
            )
        else:
            loaded.append(extra)
    if problems:
        raise TorchwheelError(problems)
    return tuple(loaded)


def _read_entry(entry: Any) -> Extra | None:
    if (
        not isinstance(entry, dict)
        or set(entry) != _KEYS
        or not all(isinstance(v, str) for v in entry.values())
    ):
        return None
    planned, found = Architecture.from_dotted(entry["planned"]), Architecture.from_dotted(entry["found"])
    if planned is None or found is None or not entry["source"]:
        return None
    return Extra(planned, found, entry["source"])
