"""Read settings: convert raw values of any source, and those of TOML tables with their ``[[when]]`` blocks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from torchwheel.host.machine import Host, marker_environment, marker_holds
from torchwheel.reporting.errors import Problem, TorchwheelError, collect_problems
from torchwheel.settings.components import read_components
from torchwheel.settings.known_keys import Key, Where, all_keys, cmake_aliases, keys_for, nearest_key
from torchwheel.settings.layers import Layer, Setting, stack_groups
from torchwheel.settings.value_types import Location, is_same_value, raw_text, resolve_value

_DEFINE_NAME = re.compile(r"[^\W\d][\w.+/-]*", re.ASCII)
_ENV_NAME = re.compile(r"[^\s=\0]+")


@dataclass(frozen=True)
class RawValue:
    """One ``key = value`` of a source.

    Attributes:
        entry: the entry of a table (``USE_NCCL`` of ``define.USE_NCCL``); else empty.
    """

    key: Key
    raw: object
    location: Location
    entry: str = ""

    @classmethod
    def of(
        cls,
        key: Key,
        raw: object,
        origin: str,
        example: str,
        entry: str = "",
        folder: Path | None = None,
        *,
        textual: bool = True,
    ) -> RawValue:
        """Return a value with the location that errors name; arguments as of ``Location``."""
        name = f"{key.name}.{entry}" if entry else key.name
        return cls(key, raw, Location(name, origin, example, textual, folder), entry)

    def __post_init__(self) -> None:
        """An option of CMake that a setting means, too, is that setting."""
        if self.key.name == "define" and self.entry in cmake_aliases():
            object.__setattr__(self, "key", all_keys()[cmake_aliases()[self.entry]])
            object.__setattr__(self, "entry", "")


@dataclass(frozen=True)
class Source:
    """Properties shared by the values of one source; ``rank`` and ``ambient`` as in ``Setting``."""

    layer: Layer
    rank: int = 0
    ambient: bool = False


def read_values(values: Iterable[RawValue], source: Source, problems: list[Problem]) -> tuple[Setting, ...]:
    """Convert the values of one source to settings; contradictions among them are problems too."""
    settings: dict[str, Setting] = {}
    for value in values:
        made: list[Setting] = []
        with collect_problems(problems):
            made = list(_settings_of(value, source, problems))
        for setting in made:
            other = settings.setdefault(setting.key, setting)
            if not is_same_value(other.value, setting.value):
                problems.append(
                    Problem.of(
                        "contradiction",
                        origin=other.origin
                        if other.origin == setting.origin
                        else f"{other.origin} and {setting.origin}",
                        one=_describe_setting(other),
                        other=_describe_setting(setting),
                    )
                )
    return tuple(settings.values())


def join_lists(values: Iterable[RawValue]) -> Iterator[RawValue]:
    """Join the values of each setting that is a list; of any other, two values are left to contradict each other."""
    groups: dict[str | int, list[RawValue]] = {}
    for number, value in enumerate(values):
        groups.setdefault(value.key.name if value.key.type.joins else number, []).append(value)
    for first, *others in groups.values():
        if others:
            origin = " and ".join(dict.fromkeys(one.location.origin for one in (first, *others)))
            raw = [one.raw for one in (first, *others)]
            first = replace(first, raw=raw, location=replace(first.location, origin=origin))
        yield first


def _settings_of(value: RawValue, source: Source, problems: list[Problem]) -> Iterator[Setting]:
    key, entry, location = value.key, value.entry, value.location
    if key.name in ("enable", "disable"):
        yield from _component_settings(value, source, problems)
        return
    if key.table and not (_DEFINE_NAME if key.name == "define" else _ENV_NAME).fullmatch(entry):
        raise TorchwheelError(_bad_name(key, entry, location))
    read = key.type.read(value.raw, location)
    if key.table and isinstance(read, str) and location.folder is not None:
        read = resolve_value(key.name, entry, read, location.folder)
    yield Setting(
        key=f"{key.name}.{entry}" if key.table else key.name,
        value=read,
        layer=source.layer,
        origin=location.origin,
        ambient=source.ambient,
        rank=source.rank,
    )


def _component_settings(value: RawValue, source: Source, problems: list[Problem]) -> Iterator[Setting]:
    location, wanted = value.location, value.key.name == "enable"
    for name in value.key.type.read(value.raw, location):
        component = read_components().find(name)
        if component is None:
            problems.append(_unknown_component(name, wanted, location))
            continue
        for option in component.options:
            yield Setting(
                key=f"define.{option}",
                value=wanted,
                layer=source.layer,
                origin=location.origin,
                component=component.name,
                ambient=source.ambient,
                rank=source.rank,
            )


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


def _bad_name(key: Key, name: str, location: Location) -> Problem:
    what = "a CMake option" if key.name == "define" else "an environment variable"
    return Problem.of(
        "malformed-name", origin=location.origin, name=name, what=what, assignment=location.example
    )


def _describe_setting(setting: Setting) -> str:
    if setting.component:
        return f"{'enable' if setting.value else 'disable'} names {setting.component}"
    return f"{setting.key} is {setting.text}"


@dataclass(frozen=True)
class Table:
    content: Mapping[str, object]
    origin: str
    where: Where
    folder: Path
    others: tuple[str, ...] = ()


def read_table(table: Table, source: Source, host: Host, problems: list[Problem]) -> tuple[Setting, ...]:
    """The settings of a table, overridden by its ``[[when]]`` blocks that apply to ``host``."""
    blocks = table.content.get("when", [])
    groups = [_read_block(table, table.content, table.origin, ("when", *table.others), source, problems)]
    if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
        problems.append(
            Problem.of("ill-typed-value/when", origin=table.origin, value=raw_text(table.content["when"]))
        )
        blocks = []
    for block in blocks:
        marker = block.get("marker")
        origin = (
            f"{table.origin} [[when]] {marker}" if isinstance(marker, str) else f"{table.origin} [[when]]"
        )
        settings = _read_block(table, block, origin, ("marker",), source, problems)
        if _condition_holds(marker, table.origin, host, problems):
            groups.append(settings)
    return stack_groups(groups)


def _read_block(
    table: Table,
    content: Mapping[str, object],
    origin: str,
    beside: tuple[str, ...],
    source: Source,
    problems: list[Problem],
) -> tuple[Setting, ...]:
    allowed = keys_for(table.where)
    values: list[RawValue] = []
    for name, raw in content.items():
        if name in beside:
            continue
        if name in allowed:
            values += _raw_values(allowed[name], raw, origin, table.folder, problems)
        else:
            problems.append(_misplaced_key(name, [*allowed, *beside], table.where, origin))
    return read_values(values, source, problems)


def _raw_values(
    key: Key, raw: object, origin: str, folder: Path, problems: list[Problem]
) -> Iterator[RawValue]:
    if key.table and not isinstance(raw, Mapping):
        problems += Location(key.name, origin, key.toml_example()).refuse(raw, "a table").problems
        return
    for entry, value in raw.items() if key.table and isinstance(raw, Mapping) else [("", raw)]:
        yield RawValue.of(key, value, origin, key.toml_example(), entry, folder, textual=False)


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
