"""Settings in TOML tables: of a project, a target or an overlay file, and in their ``[[when]]`` blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from torchwheel.host.machine import Host, marker_environment, marker_holds
from torchwheel.reporting.errors import Problem, collect_problems
from torchwheel.settings.known_keys import Key, Where, all_keys, keys_for, nearest_key
from torchwheel.settings.layers import Setting, stack_groups
from torchwheel.settings.raw_values import RawValue, Source, read_values
from torchwheel.settings.value_types import Location, raw_text


@dataclass(frozen=True)
class Table:
    """A TOML table that holds settings."""

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
    """Read the settings directly in a table; ``beside`` are valid names that are not settings."""
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
    location = Location(key.name, origin, key.toml_example(), folder=folder)
    if not key.table:
        yield RawValue(key, raw, location)
    elif not isinstance(raw, Mapping):
        problems += location.refuse(raw, "a table").problems
    else:
        for entry, value in raw.items():
            dotted = Location(f"{key.name}.{entry}", origin, key.toml_example(), folder=folder)
            yield RawValue(key, value, dotted, entry)


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
