"""What cannot be right whatever the tree is: settings that contradict each other across layers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from torchwheel.errors import Problem
from torchwheel.settings.components import Component, components
from torchwheel.settings.layers import Setting


def check_cuda(target: Setting, entries: Mapping[str, Setting], *, cuda: bool) -> Iterator[Problem]:
    """A target says whether there is CUDA; something of higher precedence says the contrary."""
    effective = entries["define.USE_CUDA"]
    if effective.on if cuda else effective.off:
        return
    if cuda:
        remedy = "unset it, or build without GPUs: -C target=cpu"
    else:
        remedy = "unset it, or name a GPU: -C target=rtx5070"
    yield Problem(
        id="target-contradicts-cuda",
        what=f"the target is {target.text} ({target.origin}), but USE_CUDA is {effective.text}",
        remedy=remedy,
        origin=effective.origin,
    )


def check_architectures(target: Setting, explicit: Setting) -> Iterator[Problem]:
    """An architecture list that was requested beside ``cpu``, which has no use for it."""
    if explicit.precedence >= target.precedence and not explicit.ambient:
        yield Problem(
            id="arch-without-gpu",
            what=f"arch is {explicit.text}, but the target is {target.text} ({target.origin})",
            remedy="leave arch out, or name a GPU: -C target=rtx5070",
            origin=explicit.origin,
        )


def follow_dependencies(entries: Mapping[str, Setting]) -> dict[str, Setting]:
    """Switch off what needs a component that something of higher precedence switched off."""
    followed = dict(entries)
    for _ in components():  # a chain of dependencies has at most one link for each component
        before = dict(followed)
        for component, setting, off in _unmet(before):
            if off.precedence > setting.precedence:
                for option in component.options:
                    followed |= _switched_off(f"define.{option}", component, off, before)
        if followed == before:
            break
    return followed


def check_dependencies(entries: Mapping[str, Setting]) -> Iterator[Problem]:
    """Components that are on although something that they need is off."""
    for component, setting, off in _unmet(entries):
        needed = off.component or off.name
        yield Problem(
            id="component-needs",
            what=f"{component.name} is on, but {needed}, which it needs, is off ({off.origin})",
            remedy=f"enable {needed} too, or disable {component.name}",
            origin=setting.origin,
        )


def check_systems(entries: Mapping[str, Setting], system: str) -> Iterator[Problem]:
    """Components that were enabled by name on a platform that does not have them."""
    for component in components():
        setting = _state(component, entries, wanted=True)
        if setting and setting.component and component.systems and system not in component.systems:
            yield Problem(
                id="component-not-here",
                what=f"{component.name} is enabled, but there is none for {system}",
                remedy=f"enable {component.name} only under a [[when]], or disable it",
                why=f"{component.title}: {' and '.join(component.systems)} only",
                origin=setting.origin,
            )


def _unmet(entries: Mapping[str, Setting]) -> Iterator[tuple[Component, Setting, Setting]]:
    """Components that are on, with what switches them on and what switches off the last thing they need."""
    for component in components():
        setting = _state(component, entries, wanted=True)
        for group in component.depends_on if setting else ():
            off = [_state(components().by_name[name], entries, wanted=False) for name in group]
            missing = [item for item in off if item]
            if setting and len(missing) == len(group):
                yield component, setting, max(missing, key=lambda item: item.precedence)


def _state(component: Component, entries: Mapping[str, Setting], *, wanted: bool) -> Setting | None:
    """The setting that switches a component on (or off); None where nothing does."""
    found = [entries[f"define.{option}"] for option in component.options if f"define.{option}" in entries]
    return next((setting for setting in found if (setting.on if wanted else setting.off)), None)


def _switched_off(
    key: str, component: Component, off: Setting, entries: Mapping[str, Setting]
) -> dict[str, Setting]:
    if key not in entries:
        return {}
    consequence = replace(off, key=key, value=False, component=component.name, replaced=())
    return {key: consequence.over([entries[key]])}
