"""From raw assignments of one source to settings: typed, with components resolved to CMake options."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from torchwheel.errors import Problem, TorchwheelError
from torchwheel.settings.components import components
from torchwheel.settings.layers import Layer, Setting
from torchwheel.settings.model import Key, cmake_aliases, keys
from torchwheel.settings.value_types import Place
from torchwheel.settings.values import same

_DEFINE_NAME = re.compile(r"[^\W\d][\w.+/-]*", re.ASCII)
_ENV_NAME = re.compile(r"[^\s=\0]+")


@dataclass(frozen=True)
class Assignment:
    """One ``key = value`` as a source has it.

    Attributes:
        key: the setting.
        raw: the value as it was given.
        place: where it stands, for reading and for errors.
        name: the entry of a table (``USE_NCCL`` of ``define.USE_NCCL``); else empty.
    """

    key: Key
    raw: object
    place: Place
    name: str = ""


@dataclass(frozen=True)
class Source:
    """What the assignments of one source have in common.

    Attributes:
        layer: their layer.
        rank: their order within it, see ``Setting.rank``.
        ambient: whether they are variables that are not torchwheel's own.
    """

    layer: Layer
    rank: int = 0
    ambient: bool = False


def read_assignments(
    assignments: Iterable[Assignment], source: Source, problems: list[Problem]
) -> tuple[Setting, ...]:
    """The settings that assignments of one source make; contradictions among them are problems too."""
    settings: dict[str, Setting] = {}
    for assignment in assignments:
        try:
            made = list(_settings_of(assignment, source, problems))
        except TorchwheelError as error:
            problems += error.problems
            continue
        for setting in made:
            other = settings.setdefault(setting.key, setting)
            if not same(other.value, setting.value):
                problems.append(_contradiction(other, setting))
    return tuple(settings.values())


def _settings_of(assignment: Assignment, source: Source, problems: list[Problem]) -> Iterator[Setting]:
    key, name, place = assignment.key, assignment.name, assignment.place
    if key.name == "define" and name in cmake_aliases():
        key, name = keys()[cmake_aliases()[name]], ""
    if key.name in ("enable", "disable"):
        yield from _component_settings(assignment, source, problems)
        return
    if key.table and not (_DEFINE_NAME if key.name == "define" else _ENV_NAME).fullmatch(name):
        raise TorchwheelError(_bad_name(key, name, place))
    yield Setting(
        key=f"{key.name}.{name}" if key.table else key.name,
        value=key.kind.read(assignment.raw, place),
        layer=source.layer,
        origin=place.origin,
        ambient=source.ambient,
        rank=source.rank,
    )


def _component_settings(assignment: Assignment, source: Source, problems: list[Problem]) -> Iterator[Setting]:
    place = assignment.place
    wanted = assignment.key.name == "enable"
    for name in assignment.key.kind.read(assignment.raw, place):
        component = components().find(name)
        if component is None:
            problems.append(_unknown_component(name, wanted, place))
            continue
        for option in component.options:
            yield Setting(
                key=f"define.{option}",
                value=wanted,
                layer=source.layer,
                origin=place.origin,
                component=component.name,
                ambient=source.ambient,
                rank=source.rank,
            )


def _unknown_component(name: str, wanted: bool, place: Place) -> Problem:
    owner = components().of_option(name.upper())
    meant = components().nearest(name)
    if owner:
        what = (
            f'"{name}" is a CMake option; {place.key} takes components, and this one is called {owner.name}'
        )
        remedy = f'write "{owner.name}"'
    elif re.match(r"(USE|BUILD)_", name):
        what = f'"{name}" is no component; {place.key} takes components'
        equals = "=" if place.textual else " = "
        remedy = f"set the CMake option itself: define.{name}{equals}{str(wanted).lower()}"
    else:
        what = f'"{name}" is not a component'
        known = ", ".join(item.name for item in components())
        remedy = f'write "{meant}"' if meant else f"choose from: {known}"
    return Problem(id="unknown-component", what=what, remedy=remedy, origin=place.origin)


def _bad_name(key: Key, name: str, place: Place) -> Problem:
    what = "a CMake option" if key.name == "define" else "an environment variable"
    return Problem(
        id="malformed-name",
        what=f'"{name}" cannot be the name of {what}',
        remedy=f"write {place.example}",
        origin=place.origin,
    )


def _contradiction(one: Setting, other: Setting) -> Problem:
    return Problem(
        id="contradiction",
        what=f"{_said(one)}, but {_said(other)}",
        remedy="keep one of the two",
        why="both have the same precedence, so neither can win",
        origin=one.origin if one.origin == other.origin else f"{one.origin} and {other.origin}",
    )


def _said(setting: Setting) -> str:
    if setting.component:
        return f"{'enable' if setting.value else 'disable'} names {setting.component}"
    return f"{setting.key} is {setting.text}"
