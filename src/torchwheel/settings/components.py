"""The components that ``enable`` and ``disable`` name (components.toml)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from torchwheel.reporting.errors import find_nearest
from torchwheel.system.toml import read_toml


@dataclass(frozen=True)
class Component:
    """A part of PyTorch that can be built or left out, and the CMake options that switch it, over all generations.

    Attributes:
        depends_on: what must not be off; each item is a group of components of which one is enough.
        systems: ``platform.system()`` of the platforms that have it; empty for all.
    """

    name: str
    aliases: tuple[str, ...]
    title: str
    options: tuple[str, ...]
    depends_on: tuple[tuple[str, ...], ...]
    systems: tuple[str, ...]
    labelled: bool


class ComponentCatalogue:
    def __init__(self, components: Iterable[Component]) -> None:
        self.by_name = {item.name: item for item in components}
        self._by_spelling = {name: item for item in self for name in (item.name, *item.aliases)}
        self._by_option = {option: item for item in self for option in item.options}

    def __iter__(self) -> Iterator[Component]:
        return iter(self.by_name.values())

    def find(self, name: str) -> Component | None:
        """The component with this name or alias, whatever its case, with ``_`` or ``-``."""
        return self._by_spelling.get(name.strip().casefold().replace("_", "-"))

    def of_option(self, option: str) -> Component | None:
        return self._by_option.get(option)

    def nearest(self, name: str) -> str | None:
        meant = find_nearest(name, self._by_spelling)
        return self._by_spelling[meant].name if meant else None


@cache
def read_components() -> ComponentCatalogue:
    table = read_toml(Path(__file__).with_name("components.toml"))
    return ComponentCatalogue(
        Component(
            name=name,
            aliases=tuple(entry.get("aliases", ())),
            title=entry["title"],
            options=tuple(entry["options"]),
            depends_on=tuple(tuple(group.split(" or ")) for group in entry.get("depends-on", ())),
            systems=tuple(entry.get("systems", ())),
            labelled=entry.get("labelled", True),
        )
        for name, entry in table.items()
        if name != "source"
    )
