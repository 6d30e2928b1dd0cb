"""The components that ``enable`` and ``disable`` name, read from components.toml."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from torchwheel._toml import read_toml
from torchwheel.errors import Problem, TorchwheelError
from torchwheel.settings.spelling import nearest


@dataclass(frozen=True)
class Component:
    """A part of PyTorch that can be built or left out.

    Attributes:
        name: as ``enable`` and ``disable`` take it.
        aliases: other names for it.
        title: what it is.
        options: the CMake options that switch it, over all generations of PyTorch.
        depends_on: what must not be off; each item is a group of components of which one is enough.
        systems: ``platform.system()`` of the platforms that have it; empty for all.
        source: where the facts come from.
    """

    name: str
    aliases: tuple[str, ...]
    title: str
    options: tuple[str, ...]
    depends_on: tuple[tuple[str, ...], ...]
    systems: tuple[str, ...]
    source: str


@dataclass(frozen=True)
class ComponentCatalogue:
    """All components, by any of their names."""

    by_name: Mapping[str, Component]
    _by_spelling: Mapping[str, Component] = field(repr=False)
    _by_option: Mapping[str, Component] = field(repr=False)

    def __iter__(self) -> Iterator[Component]:
        return iter(self.by_name.values())

    def find(self, name: str) -> Component | None:
        """The component with this name or alias, whatever its case, with ``_`` or ``-``."""
        return self._by_spelling.get(name.strip().casefold().replace("_", "-"))

    def of_option(self, option: str) -> Component | None:
        """The component that a CMake option belongs to."""
        return self._by_option.get(option)

    def nearest(self, name: str) -> str | None:
        """The name of the component that was probably meant."""
        meant = nearest(name, self._by_spelling)
        return self._by_spelling[meant].name if meant else None


def read_components(path: Path) -> ComponentCatalogue:
    """Read and check a catalogue of components.

    Raises:
        TorchwheelError: the file cannot be read, lacks a field, or uses a name or option twice.
    """
    table = read_toml(path)
    default_source = table.pop("source", "")
    components = [_component(name, entry, default_source, path) for name, entry in table.items()]
    spellings = [(name, item) for item in components for name in (item.name, *item.aliases)]
    options = [(option, item) for item in components for option in item.options]
    known = {item.name for item in components}
    needed = [(name, item) for item in components for group in item.depends_on for name in group]
    problems = [
        *_repeated(spellings, "name", path),
        *_repeated(options, "option", path),
        *(
            _bad_entry(path, item.name, f'depends on "{name}", which is no component')
            for name, item in needed
            if name not in known
        ),
    ]
    if problems:
        raise TorchwheelError(problems)
    return ComponentCatalogue(
        by_name={item.name: item for item in components},
        _by_spelling=dict(spellings),
        _by_option=dict(options),
    )


@cache
def components() -> ComponentCatalogue:
    """The components of PyTorch."""
    return read_components(Path(__file__).with_name("components.toml"))


def _component(name: str, entry: Mapping[str, Any], default_source: str, path: Path) -> Component:
    missing = {"title", "options"} - entry.keys()
    if missing:
        raise TorchwheelError(_bad_entry(path, name, f"has no {' and no '.join(sorted(missing))}"))
    return Component(
        name=name,
        aliases=tuple(entry.get("aliases", ())),
        title=entry["title"],
        options=tuple(entry["options"]),
        depends_on=tuple(tuple(group.split(" or ")) for group in entry.get("depends-on", ())),
        systems=tuple(entry.get("systems", ())),
        source=entry.get("source", default_source),
    )


def _repeated(pairs: list[tuple[str, Component]], what: str, path: Path) -> Iterator[Problem]:
    seen: dict[str, Component] = {}
    for text, item in pairs:
        if text in seen:
            yield _bad_entry(path, item.name, f"has the {what} {text}, which {seen[text].name} has too")
        seen.setdefault(text, item)


def _bad_entry(path: Path, name: str, fault: str) -> Problem:
    return Problem(id="bad-data-file", what=f"[{name}] {fault}", remedy="correct the entry", origin=str(path))
