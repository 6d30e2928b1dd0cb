"""The layers that settings come from, and how the raw values of each become settings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

from torchwheel.host.machine import Host, marker_environment, marker_holds
from torchwheel.reporting.errors import Problem, collect_problems, refusal
from torchwheel.reporting.masking import mask_value
from torchwheel.settings.components import read_components
from torchwheel.settings.known_keys import Key, Where, all_keys, cmake_aliases, keys_for, nearest_key
from torchwheel.settings.value_types import Location, is_same_value, parse_truth, raw_text, resolve_value

_DEFINE_NAME = re.compile(r"[^\W\d][\w.+/-]*", re.ASCII)
_ENV_NAME = re.compile(r"[^\s=\0]+")


class Layer(IntEnum):
    """Where a setting comes from; a higher layer beats a lower one."""

    DEFAULT = 0
    BUILTIN_OVERLAY = 1
    USER_OVERLAY = 2
    PROJECT = 3
    ENVIRONMENT = 4
    CONFIG = 5

    @property
    def title(self) -> str:
        return _TITLES[self]


_TITLES = ("built-in default", "built-in overlay", "user overlay", "project", "environment", "-C")


@dataclass(frozen=True)
class Setting:
    """One value, with its origin and the settings that it replaced.

    Attributes:
        key: dotted name: ``target``, ``define.USE_NCCL``, ``env.CFLAGS``.
        origin: the place in that layer: a file and table, ``-C target``, ``variable USE_NCCL``.
        replaced: the settings that lost to it, highest first.
        component: the component whose ``enable`` or ``disable`` made this define; else empty.
        ambient: whether it comes from another tool's variable, such as ``CUDA_HOME``.
        rank: order within the layer, higher beats lower.
    """

    key: str
    value: Any
    layer: Layer
    origin: str
    replaced: tuple[Setting, ...] = ()
    component: str = ""
    ambient: bool = False
    rank: int = 0

    @property
    def precedence(self) -> tuple[Layer, int]:
        return self.layer, self.rank

    @property
    def text(self) -> str:
        if isinstance(self.value, bool):
            return "true" if self.value else "false"
        return ", ".join(self.value) if isinstance(self.value, tuple) else str(self.value)

    @property
    def shown(self) -> str:
        """The value as one line of text, with secrets masked."""
        return mask_value(self.name, self.text)

    @property
    def on(self) -> bool:
        return parse_truth(self.value) is True

    @property
    def off(self) -> bool:
        return parse_truth(self.value) is False

    @property
    def name(self) -> str:
        """The key without its table: ``USE_NCCL`` of ``define.USE_NCCL``."""
        return self.key.partition(".")[2] or self.key

    def with_replaced(self, beaten: Iterable[Setting]) -> Setting:
        return replace(self, replaced=(*self.replaced, *flatten_replaced(beaten)))


def flatten_replaced(settings: Iterable[Setting]) -> tuple[Setting, ...]:
    """Return one flat sequence: each setting, followed by the ones that it had replaced."""
    return tuple(one for setting in settings for one in (replace(setting, replaced=()), *setting.replaced))


def stack_groups(groups: Iterable[Iterable[Setting]]) -> tuple[Setting, ...]:
    """Merge groups of settings of one layer; for each key the last group wins."""
    winners: dict[str, Setting] = {}
    for setting in (one for group in groups for one in group):
        beaten = winners.get(setting.key)
        winners[setting.key] = setting.with_replaced([beaten]) if beaten else setting
    return tuple(winners.values())


class RawValue(NamedTuple):
    """One ``key = value`` of a source; ``entry`` is that of a table (``USE_NCCL`` of ``define.USE_NCCL``)."""

    key: Key
    raw: object
    origin: str
    example: str
    entry: str = ""

    @property
    def name(self) -> str:
        return f"{self.key.name}.{self.entry}" if self.entry else self.key.name

    @property
    def meant(self) -> Key:
        """The key: an option of CMake that a setting means, too, is that setting."""
        alias = cmake_aliases().get(self.entry) if self.key.name == "define" else None
        return all_keys()[alias] if alias else self.key


@dataclass(frozen=True)
class Source:
    """A source of settings, to whose ``folder`` relative paths in it are relative.

    Attributes:
        problems: gets whatever is wrong with the values.
        textual: whether it can only hold text, as in ``Location``.
    """

    layer: Layer
    problems: list[Problem]
    folder: Path | None = None
    textual: bool = True
    rank: int = 0
    ambient: bool = False

    def read(self, values: Iterable[RawValue]) -> tuple[Setting, ...]:
        """Convert values to settings; contradictions among them are problems too."""
        settings: dict[str, Setting] = {}
        for value in values:
            made: list[Setting] = []
            with collect_problems(self.problems):
                made = list(self._settings_of(value))
            for setting in made:
                other = settings.setdefault(setting.key, setting)
                if not is_same_value(other.value, setting.value):
                    origins = " and ".join(dict.fromkeys((other.origin, setting.origin)))
                    one, two = _describe_setting(other), _describe_setting(setting)
                    self.problems.append(Problem.of("contradiction", origin=origins, one=one, other=two))
        return tuple(settings.values())

    def _settings_of(self, value: RawValue) -> Iterator[Setting]:
        key, entry, origin = value.meant, value.entry, value.origin
        if key.table and not (_DEFINE_NAME if key.name == "define" else _ENV_NAME).fullmatch(entry):
            what = "a CMake option" if key.name == "define" else "an environment variable"
            raise refusal("malformed-name", origin=origin, name=entry, what=what, assignment=value.example)
        location = Location(value.name, origin, value.example, self.textual, self.folder)
        read = key.type.read(value.raw, location)
        if key.table and isinstance(read, str) and self.folder is not None:
            read = resolve_value(key.name, entry, read, self.folder)
        made = Setting("", read, self.layer, origin, ambient=self.ambient, rank=self.rank)
        if key.name not in ("enable", "disable"):
            yield replace(made, key=value.name if key.table else key.name)
            return
        wanted = key.name == "enable"
        for name in read:
            if component := read_components().find(name):
                for option in component.options:
                    yield replace(made, key=f"define.{option}", value=wanted, component=component.name)
            else:
                self.problems.append(_unknown_component(name, wanted, location))


def join_lists(values: Iterable[RawValue]) -> Iterator[RawValue]:
    """Join the values of each setting that is a list; of any other, two values are left to contradict each other."""
    groups: dict[str | int, list[RawValue]] = {}
    for number, value in enumerate(values):
        groups.setdefault(value.meant.name if value.meant.type.joins else number, []).append(value)
    for first, *others in groups.values():
        if others:
            origin = " and ".join(dict.fromkeys(one.origin for one in (first, *others)))
            first = first._replace(raw=[one.raw for one in (first, *others)], origin=origin)
        yield first


def _unknown_component(name: str, wanted: bool, location: Location) -> Problem:
    components, origin, key = read_components(), location.origin, location.key
    if owner := components.of_option(name.upper()):
        return Problem.of("unknown-component/option", origin=origin, name=name, key=key, meant=owner.name)
    if re.match(r"(USE|BUILD)_", name):
        head, equals = ("-C ", "=") if location.textual else ("", " = ")
        assignment = f"{head}define.{name}{equals}{str(wanted).lower()}"
        return Problem.of(
            "unknown-component/no-component", origin=origin, name=name, key=key, assignment=assignment
        )
    meant, known = components.nearest(name), ", ".join(item.name for item in components)
    variant = "unknown-component/near" if meant else "unknown-component"
    return Problem.of(variant, origin=origin, name=name, meant=meant, components=known)


def _describe_setting(setting: Setting) -> str:
    if setting.component:
        return f"{'enable' if setting.value else 'disable'} names {setting.component}"
    return f"{setting.key} is {setting.text}"


@dataclass(frozen=True)
class Table:
    """A TOML table that holds settings; ``others`` are valid names in it that are none."""

    content: Mapping[str, object]
    origin: str
    where: Where
    others: tuple[str, ...] = ()


def split_header(
    table: Table, keys: Mapping[str, Key], problems: list[Problem]
) -> tuple[dict[str, str], Table]:
    """A table's header, with an empty text for a key that is missing or wrong, and the rest of the table."""
    header = dict.fromkeys(keys, "")
    for name in (one for one in keys if one in table.content):
        with collect_problems(problems):
            location = Location(name, table.origin, keys[name].toml_example())
            value = keys[name].type.read(table.content[name], location)
            header[name] = value if isinstance(value, str) else ", ".join(value)
    body = {key: raw for key, raw in table.content.items() if key not in keys}
    return header, replace(table, content=body, others=(*table.others, *keys))


def read_table(table: Table, source: Source, host: Host) -> tuple[Setting, ...]:
    """The settings of a table, overridden by its ``[[when]]`` blocks that apply to ``host``."""
    blocks = table.content.get("when", [])
    groups = [_read_block(replace(table, others=("when", *table.others)), source)]
    if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
        problem = Problem.of("ill-typed-value/when", origin=table.origin, value=raw_text(blocks))
        source.problems.append(problem)
        blocks = []
    for block in blocks:
        marker = block.get("marker")
        origin = f"{table.origin} [[when]]" + (f" {marker}" if isinstance(marker, str) else "")
        settings = _read_block(Table(block, origin, table.where, ("marker",)), source)
        if _condition_holds(marker, table.origin, host, source.problems):
            groups.append(settings)
    return stack_groups(groups)


def _read_block(table: Table, source: Source) -> tuple[Setting, ...]:
    allowed, origin = keys_for(table.where), table.origin
    values: list[RawValue] = []
    for name, raw in table.content.items():
        key = allowed.get(name)
        if name in table.others:
            continue
        if key is None:
            source.problems.append(_misplaced_key(name, [*allowed, *table.others], table.where, origin))
        elif not key.table:
            values.append(RawValue(key, raw, origin, key.toml_example()))
        elif isinstance(raw, Mapping):
            values += [RawValue(key, one, origin, key.toml_example(), entry) for entry, one in raw.items()]
        else:
            refused = Location(name, origin, key.toml_example()).refuse(raw, "a table")
            source.problems.extend(refused.problems)
    return replace(source, textual=False).read(values)


def _misplaced_key(name: str, siblings: list[str], where: Where, origin: str) -> Problem:
    if name in all_keys():
        place = "a profile" if where is Where.PROFILE else "a target"
        return Problem.of("misplaced-setting", origin=origin, name=name, place=place)
    meant = nearest_key(name, siblings)
    variant = "unknown-setting/table-near" if meant else "unknown-setting/table"
    return Problem.of(variant, origin=origin, name=name, meant=meant, settings=", ".join(siblings))


def _condition_holds(marker: object, origin: str, host: Host, problems: list[Problem]) -> bool:
    why = ""
    if isinstance(marker, str):
        try:
            return marker_holds(marker, marker_environment(host))
        except ValueError as error:
            why = str(error).splitlines()[0]
    variant = "malformed-marker/missing" if marker is None else "malformed-marker"
    problems.append(Problem.of(variant, origin=origin, marker=raw_text(marker), reason=why))
    return False
