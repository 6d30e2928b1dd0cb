"""The public projects of projects.toml: what is changed in each, and what comes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from torchwheel.system.toml import read_toml

_FILE = Path(__file__).with_name("projects.toml")


@dataclass(frozen=True)
class Edit:
    """One line of a file in the sdist, and what stands in its place."""

    file: str
    before: str
    after: str
    times: int = 1


@dataclass(frozen=True)
class Project:
    """A project's sdist on PyPI.

    Attributes:
        name: as PyPI spells it.
        version: the release.
        sha256: of the sdist.
        home: where its source is public.
        edits: the lines that are changed.
        environment: the variables that the project's own documentation or setup.py has for such a build.
        modules: path in the wheel, without the suffix of extension modules -> labels of its device code.
        use: Python that uses the modules; torch is imported, and ``module(NAME)`` loads one of them.
        printed: what that prints.
        seconds: how long ``pip wheel`` took, compiling everything.
        cpu_seconds: the processors' time of that; None if it was not measured.
        paired: the processors' time in seconds that this took without a compiler cache, and that the unchanged sdist
            took with PyTorch's own BuildExtension right after it; None if that was not measured.
        note: what a reader should know.
    """

    name: str
    version: str
    sha256: str
    home: str
    edits: tuple[Edit, ...]
    environment: Mapping[str, str]
    modules: Mapping[str, tuple[str, ...]]
    use: str
    printed: str
    seconds: int
    cpu_seconds: int | None = None
    paired: tuple[int, int] | None = None
    note: str = ""


@dataclass(frozen=True)
class NotBuilt:
    """An sdist that builds for no named GPU, whatever compiles it; and why."""

    name: str
    version: str
    home: str
    reason: str


@dataclass(frozen=True)
class Measured:
    """What the results were measured with."""

    date: str
    torch: str
    toolkit: str
    python: str
    machine: str


@cache
def projects() -> Mapping[str, Project]:
    """Those that build, by name."""
    return {entry["name"]: _project(entry) for entry in _table()["project"]}


@cache
def not_built() -> tuple[NotBuilt, ...]:
    """Those that do not."""
    return tuple(NotBuilt(**entry) for entry in _table()["not-built"])


@cache
def measured() -> Measured:
    """What the results were measured with."""
    return Measured(**_table()["measured"])


@cache
def _table() -> dict[str, Any]:
    return read_toml(_FILE)


def _project(entry: Mapping[str, Any]) -> Project:
    edits = tuple(Edit(**edit) for edit in entry["edits"])
    modules = {name: tuple(labels) for name, labels in entry["modules"].items()}
    paired = tuple(entry["paired"]) if "paired" in entry else None
    return Project(**{**entry, "edits": edits, "modules": modules, "paired": paired})
