"""The components that ``enable`` and ``disable`` name (components.toml), and checks across layers that need no tree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from torchwheel.reporting.errors import Problem, find_nearest
from torchwheel.settings.layers import Setting
from torchwheel.system.toml import read_toml


@dataclass(frozen=True)
class Component:
    """A part of PyTorch that can be built or left out.

    Attributes:
        options: the CMake options that switch it, over all generations of PyTorch.
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
    source: str


@dataclass(frozen=True)
class ComponentCatalogue:
    by_name: Mapping[str, Component]
    _by_spelling: Mapping[str, Component] = field(repr=False)
    _by_option: Mapping[str, Component] = field(repr=False)

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
    source = table.pop("source")
    by_name = {name: _read_component(name, entry, source) for name, entry in table.items()}
    return ComponentCatalogue(
        by_name=by_name,
        _by_spelling={name: item for item in by_name.values() for name in (item.name, *item.aliases)},
        _by_option={option: item for item in by_name.values() for option in item.options},
    )


def _read_component(name: str, entry: Mapping[str, Any], default_source: str) -> Component:
    return Component(
        name=name,
        aliases=tuple(entry.get("aliases", ())),
        title=entry["title"],
        options=tuple(entry["options"]),
        depends_on=tuple(tuple(group.split(" or ")) for group in entry.get("depends-on", ())),
        systems=tuple(entry.get("systems", ())),
        labelled=entry.get("labelled", True),
        source=entry.get("source", default_source),
    )


def check_cuda(target: Setting, entries: Mapping[str, Setting], *, cuda: bool) -> Iterator[Problem]:
    """Report a setting of higher precedence that contradicts the target's ``USE_CUDA``."""
    effective = entries["define.USE_CUDA"]
    if effective.on if cuda else effective.off:
        return
    yield Problem.of(
        "target-contradicts-cuda/gpu" if cuda else "target-contradicts-cuda",
        origin=effective.origin,
        target=target.text,
        origin_of_target=target.origin,
        value=effective.text,
    )


def check_architectures(target: Setting, explicit: Setting) -> Iterator[Problem]:
    """Report an architecture list requested together with ``cpu``, which cannot use it."""
    if explicit.precedence >= target.precedence and not explicit.ambient:
        yield Problem.of(
            "arch-without-gpu",
            origin=explicit.origin,
            arch=explicit.text,
            target=target.text,
            origin_of_target=target.origin,
        )


def follow_dependencies(entries: Mapping[str, Setting], problems: list[Problem]) -> dict[str, Setting]:
    """Switch off the components whose dependency a setting of higher precedence switched off; report the others."""
    followed = dict(entries)
    unmet = list(_unmet_dependencies(followed))
    while following := [item for item in unmet if item[2].precedence > item[1].precedence]:
        before = dict(followed)
        for component, _, off in following:
            for key in (f"define.{option}" for option in component.options):
                if key in before:
                    consequence = replace(off, key=key, value=False, component=component.name, replaced=())
                    followed[key] = consequence.with_replaced([before[key]])
        unmet = list(_unmet_dependencies(followed))
    for component, setting, off in unmet:
        problems.append(
            Problem.of(
                "component-needs",
                origin=setting.origin,
                component=component.name,
                needed=off.component or off.name,
                origin_of_needed=off.origin,
            )
        )
    return followed


def check_systems(entries: Mapping[str, Setting], system: str) -> Iterator[Problem]:
    for component in read_components():
        setting = _switching_setting(component, entries, wanted=True)
        # A target implies USE_CUDA, and the plan says more of it.
        named = setting is not None and (setting.component or setting.name != "USE_CUDA")
        if setting and named and component.systems and system not in component.systems:
            yield Problem.of(
                "component-not-here",
                origin=setting.origin,
                component=component.name,
                option=setting.name,
                system=system,
                title=component.title,
                systems=" and ".join(component.systems),
            )


def _unmet_dependencies(entries: Mapping[str, Setting]) -> Iterator[tuple[Component, Setting, Setting]]:
    """Yield each component that is on without a dependency, with the settings that switch on the one, off the other."""
    for component in read_components():
        setting = _switching_setting(component, entries, wanted=True)
        for group in component.depends_on if setting else ():
            off = [
                _switching_setting(read_components().by_name[name], entries, wanted=False) for name in group
            ]
            missing = [item for item in off if item]
            if setting and len(missing) == len(group):
                yield component, setting, max(missing, key=lambda item: item.precedence)


def _switching_setting(
    component: Component, entries: Mapping[str, Setting], *, wanted: bool
) -> Setting | None:
    """Find the setting that switches a component on (or off); None if there is none."""
    found = [entries[f"define.{option}"] for option in component.options if f"define.{option}" in entries]
    return next((setting for setting in found if (setting.on if wanted else setting.off)), None)
