"""Read settings: convert raw values of any source, and those of TOML tables with their ``[[when]]`` blocks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from torchwheel.host.machine import Host, marker_environment, marker_holds
from torchwheel.reporting.errors import Problem, collect_problems, refusal
from torchwheel.settings.components import read_components
from torchwheel.settings.known_keys import Key, Where, all_keys, cmake_aliases, keys_for, nearest_key
from torchwheel.settings.layers import Layer, Setting, stack_groups
from torchwheel.settings.value_types import Location, is_same_value, raw_text, resolve_value

_DEFINE_NAME = re.compile(r"[^\W\d][\w.+/-]*", re.ASCII)
_ENV_NAME = re.compile(r"[^\s=\0]+")


class RawValue(NamedTuple):
    """One ``key = value`` of a source.

    Attributes:
        entry: the entry of a table (``USE_NCCL`` of ``define.USE_NCCL``); else empty.
    """

    key: Key
    raw: object
    location: Location
    entry: str


@dataclass(frozen=True)
class Source:
    """A source of settings.

    Attributes:
        problems: gets whatever is wrong with the values.
        folder: relative paths in it are relative to this.
        textual: whether it can only hold text, as in ``Location``.
        rank, ambient: those of its settings.
    """

    layer: Layer
    problems: list[Problem]
    folder: Path | None = None
    textual: bool = True
    rank: int = 0
    ambient: bool = False

    def value(self, key: Key, raw: object, origin: str, example: str, entry: str = "") -> RawValue:
        """Return a value; an option of CMake that a setting means, too, is that setting."""
        name = f"{key.name}.{entry}" if entry else key.name
        if key.name == "define" and entry in cmake_aliases():
            key, entry = all_keys()[cmake_aliases()[entry]], ""
        return RawValue(key, raw, Location(name, origin, example, self.textual, self.folder), entry)

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
        key, raw, location, entry = value
        if key.table and not (_DEFINE_NAME if key.name == "define" else _ENV_NAME).fullmatch(entry):
            what = "a CMake option" if key.name == "define" else "an environment variable"
            raise refusal(
                "malformed-name", origin=location.origin, name=entry, what=what, assignment=location.example
            )
        read = key.type.read(raw, location)
        if key.table and isinstance(read, str) and location.folder is not None:
            read = resolve_value(key.name, entry, read, location.folder)
        made = Setting("", read, self.layer, location.origin, ambient=self.ambient, rank=self.rank)
        if key.name not in ("enable", "disable"):
            yield replace(made, key=f"{key.name}.{entry}" if key.table else key.name)
            return
        for name in read:
            component = read_components().find(name)
            if component is None:
                self.problems.append(_unknown_component(name, key.name == "enable", location))
                continue
            for option in component.options:
                wanted = key.name == "enable"
                yield replace(made, key=f"define.{option}", value=wanted, component=component.name)


def join_lists(values: Iterable[RawValue]) -> Iterator[RawValue]:
    """Join the values of each setting that is a list; of any other, two values are left to contradict each other."""
    groups: dict[str | int, list[RawValue]] = {}
    for number, value in enumerate(values):
        groups.setdefault(value.key.name if value.key.type.joins else number, []).append(value)
    for first, *others in groups.values():
        if others:
            origin = " and ".join(dict.fromkeys(one.location.origin for one in (first, *others)))
            raw = [one.raw for one in (first, *others)]
            first = first._replace(raw=raw, location=replace(first.location, origin=origin))
        yield first


def _unknown_component(name: str, wanted: bool, location: Location) -> Problem:
    origin, key = location.origin, location.key
    if owner := read_components().of_option(name.upper()):
        return Problem.of("unknown-component/option", origin=origin, name=name, key=key, meant=owner.name)
    if re.match(r"(USE|BUILD)_", name):
        head, equals = ("-C ", "=") if location.textual else ("", " = ")
        assignment = f"{head}define.{name}{equals}{str(wanted).lower()}"
        return Problem.of(
            "unknown-component/no-component", origin=origin, name=name, key=key, assignment=assignment
        )
    meant = read_components().nearest(name)
    return Problem.of(
        "unknown-component/near" if meant else "unknown-component",
        origin=origin,
        name=name,
        meant=meant,
        components=", ".join(item.name for item in read_components()),
    )


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
    allowed, source = keys_for(table.where), replace(source, textual=False)
    values: list[RawValue] = []
    for name, raw in table.content.items():
        key, origin = allowed.get(name), table.origin
        if name in table.others:
            continue
        if key is None:
            siblings = [*allowed, *table.others]
            source.problems.append(_misplaced_key(name, siblings, table.where, origin))
        elif key.table and not isinstance(raw, Mapping):
            refused = Location(name, origin, key.toml_example()).refuse(raw, "a table")
            source.problems.extend(refused.problems)
        else:
            entries = raw if key.table and isinstance(raw, Mapping) else {"": raw}
            values += [
                source.value(key, one, origin, key.toml_example(), entry) for entry, one in entries.items()
            ]
    return source.read(values)


def _misplaced_key(name: str, siblings: list[str], where: Where, origin: str) -> Problem:
    if name in all_keys():
        place = "a profile" if where is Where.PROFILE else "a target"
        return Problem.of("misplaced-setting", origin=origin, name=name, place=place)
    meant = nearest_key(name, siblings)
    return Problem.of(
        "unknown-setting/table-near" if meant else "unknown-setting/table",
        origin=origin,
        name=name,
        meant=meant,
        settings=", ".join(siblings),
    )


def _condition_holds(marker: object, origin: str, host: Host, problems: list[Problem]) -> bool:
    why = ""
    if isinstance(marker, str):
        try:
            return marker_holds(marker, marker_environment(host))
        except ValueError as error:
            why = str(error).splitlines()[0]
    problems.append(
        Problem.of(
            "malformed-marker/missing" if marker is None else "malformed-marker",
            origin=origin,
            marker=raw_text(marker),
            reason=why,
        )
    )
    return False


def header_text(content: Mapping[str, object], key: Key, origin: str, problems: list[Problem]) -> str:
    """A key of a table's header, such as ``inherits``; empty if it is missing or wrong."""
    if key.name in content:
        with collect_problems(problems):
            value = key.type.read(content[key.name], Location(key.name, origin, key.toml_example()))
            return value if isinstance(value, str) else ", ".join(value)
    return ""
