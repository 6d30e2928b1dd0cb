"""Config settings (``-C key=value``) as frontends hand them over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from torchwheel._toml import read_toml
from torchwheel.errors import Problem
from torchwheel.settings.assignments import Assignment, Source, read_assignments
from torchwheel.settings.layers import Layer, Setting
from torchwheel.settings.model import Key, Where, keys_for
from torchwheel.settings.spelling import nearest
from torchwheel.settings.value_types import Architectures, Names, Place

ConfigValue = str | list[str] | bool


@dataclass(frozen=True)
class Passthrough:
    """The config settings of the wrapped backends.

    Attributes:
        names: their names, without prefix; ``.*`` at the end stands for every name below.
        prefixes: prefixes that a name may have in addition.
    """

    names: tuple[str, ...]
    prefixes: tuple[str, ...]

    def bare(self, name: str) -> str:
        """A name without the optional prefix."""
        for prefix in self.prefixes:
            name = name.removeprefix(prefix)
        return name

    def knows(self, name: str) -> bool:
        """Whether a name belongs to a wrapped backend."""
        bare = self.bare(name)
        return any(
            bare.startswith(known[:-1]) and bare != known[:-1] if known.endswith(".*") else bare == known
            for known in self.names
        )


@dataclass(frozen=True)
class ConfigSettings:
    """What ``-C`` says: torchwheel's own settings, and what is handed on unread."""

    settings: tuple[Setting, ...]
    passthrough: Mapping[str, ConfigValue]


@cache
def passthrough() -> Passthrough:
    """The names of passthrough.toml."""
    backends = read_toml(Path(__file__).with_name("passthrough.toml")).values()
    return Passthrough(
        names=tuple(name for backend in backends for name in backend["names"]),
        prefixes=tuple(backend["optional-prefix"] for backend in backends if "optional-prefix" in backend),
    )


def read_config_settings(given: Mapping[str, ConfigValue] | None, problems: list[Problem]) -> ConfigSettings:
    """The settings that ``-C`` makes."""
    assignments: list[Assignment] = []
    handed_on: dict[str, ConfigValue] = {}
    for name, value in (given or {}).items():
        found = _own(name)
        if found is None and passthrough().knows(name):
            handed_on[name] = value
        elif found is None:
            problems.append(_unknown(name, value))
        else:
            key, entry = found
            place = Place(
                f"{key.name}.{entry}" if entry else key.name, f"-C {name}", _example(key), textual=True
            )
            if key.table and not entry:
                problems.append(_nameless(key, value))
            elif (
                isinstance(value, list)
                and len(value) != 1
                and not isinstance(key.kind, (Names, Architectures))
            ):
                problems.append(_repeated(name, value))
            else:
                single = value[0] if isinstance(value, list) and len(value) == 1 else value
                assignments.append(Assignment(key, single, place, entry))
    settings = read_assignments(assignments, Source(Layer.CONFIG), problems)
    return ConfigSettings(settings, handed_on)


@cache
def _by_spelling() -> Mapping[str, Key]:
    allowed = keys_for(Where.COMMAND).values()
    return {name: key for key in allowed for name in (key.name, *key.also)}


def _own(given: str) -> tuple[Key, str] | None:
    """The setting that a name means, and the entry if it is a table's."""
    bare = passthrough().bare(given)
    spellings = _by_spelling()
    if bare in spellings:
        return spellings[bare], ""
    for name, key in spellings.items():
        if key.table and bare.startswith(f"{name}."):
            return key, bare.removeprefix(f"{name}.")
    return None


def _example(key: Key) -> str:
    return f"-C {key.name}.{key.example}" if key.table else f"-C {key.name}={key.example}"


def _unknown(name: str, value: ConfigValue) -> Problem:
    head, dot, entry = name.partition(".")
    own = _by_spelling()
    tables = [spelling for spelling, key in own.items() if key.table and "." not in spelling]
    theirs = [known.removesuffix(".*") for known in passthrough().names]
    meant = nearest(name, [*own, *theirs])
    if dot and (table := nearest(head, tables)):
        meant = f"{table}.{entry}"
    text = value if isinstance(value, str) else "…"
    return Problem(
        id="unknown-setting",
        what=f'"{name}" is not a setting of torchwheel or of the backends that it wraps',
        remedy=f"write -C {meant}={text}" if meant else f"choose from: {', '.join(keys_for(Where.COMMAND))}",
        origin=f"-C {name}",
    )


def _nameless(key: Key, value: ConfigValue) -> Problem:
    text = value if isinstance(value, str) and "=" in value else key.example
    return Problem(
        id="malformed-name",
        what=f"{key.name} needs a name",
        remedy=f"write -C {key.name}.{text}",
        origin=f"-C {key.name}",
    )


def _repeated(name: str, values: list[str]) -> Problem:
    return Problem(
        id="repeated-setting",
        what=f"{name} is given {len(values)} times: {', '.join(values)}",
        remedy="give it once",
        origin=f"-C {name}",
    )
