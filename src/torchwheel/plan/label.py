"""The local version label of a wheel: the hardware, and what else makes it another wheel than a plain release build.

docs/settings.md states the rule. Every segment is letters and digits with a letter among them, so that no front end
normalises it (https://packaging.python.org/specifications/version-specifiers/#local-version-identifiers).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

from torchwheel.hardware.arch import ArchitectureList
from torchwheel.plan.defines import is_known
from torchwheel.plan.fingerprint import matters
from torchwheel.settings import Layer, Setting, Settings
from torchwheel.settings.components import Component, components
from torchwheel.settings.overlays import canonical_name
from torchwheel.settings.values import truth
from torchwheel.tree.model import Tree

_MOST_COMPONENTS = 3
_DIGITS = 6


def hardware_label(cuda: str | None, architectures: ArchitectureList | None) -> str:
    """The label of the hardware: ``cpu``, or ``cu130.sm120`` for CUDA ``"13.0"`` and sm_120."""
    if architectures is None:
        return "cpu"
    toolkit = () if cuda is None else ("cu" + cuda.replace(".", ""),)
    return ".".join((*toolkit, *architectures.labels))


def build_labels(settings: Settings, tree: Tree) -> tuple[str, ...]:
    """The segments after the hardware's: profiles, build type, components, and whether the checkout was changed."""
    profiles = {name: _settings_of(name, settings) for name in settings.profile}
    labels = [
        _segment(name)
        for name, own in profiles.items()
        if any(_of(setting) in own and _shapes(setting, tree) for setting in settings.entries.values())
    ]
    labels += build_type_labels(settings.build_type)
    changed = sorted(_changed_components(settings, tree, set().union(*profiles.values())))
    if len(changed) > _MOST_COMPONENTS:
        digest = hashlib.sha256(" ".join(changed).encode()).hexdigest()
        changed = [f"custom{digest[:_DIGITS]}"]
    return tuple(dict.fromkeys([*labels, *changed, *(["dirty"] if tree.dirty else [])]))


def build_type_labels(build_type: str) -> tuple[str, ...]:
    """``debug`` for Debug, nothing for Release."""
    return () if build_type == "Release" else (_segment(build_type),)


_Place = tuple[str, Layer, str]


def _of(setting: Setting) -> _Place:
    """What stands for a setting, whatever it replaced."""
    return setting.key, setting.layer, setting.origin


def _settings_of(profile: str, settings: Settings) -> set[_Place]:
    overlays = settings.overlays
    chain = overlays.chain(canonical_name(profile), "profile")
    return {_of(setting) for setting in overlays.settings(chain, "profile")}


def _shapes(setting: Setting, tree: Tree) -> bool:
    """Whether a setting changes what the wheel is, not only how it is built."""
    table = setting.key.partition(".")[0]
    if table == "define":
        component = components().of_option(setting.name)
        return is_known(tree, setting.name) and (component is None or component.labelled)
    return setting.key == "build-type" or (table == "env" and matters(setting.name))


def _changed_components(settings: Settings, tree: Tree, of_profiles: set[_Place]) -> Iterator[str]:
    """Components that are on or off against what built-in targets, the profiles and the tree itself say."""
    for component in components():
        # Whether there is CUDA, the hardware's label says.
        if component.name == "cuda" or not component.labelled:
            continue
        for setting in (settings.defines[o] for o in component.options if o in settings.defines):
            on = not setting.off
            given = _of(setting) in of_profiles or setting.layer is Layer.BUILTIN_OVERLAY
            if given or setting.name not in tree.known_names or (not on and _lacks(component, settings)):
                continue
            if on is not _otherwise(setting, tree, of_profiles):
                yield _segment(component.name if on else f"no{component.name}")
                break


def _lacks(component: Component, settings: Settings) -> bool:
    """Whether something that a component needs is off, and the component with it."""
    return any(
        all(_is_off(components().by_name[name], settings) for name in group) for group in component.depends_on
    )


def _is_off(component: Component, settings: Settings) -> bool:
    return any(settings.defines[option].off for option in component.options if option in settings.defines)


def _otherwise(setting: Setting, tree: Tree, of_profiles: set[_Place]) -> bool | None:
    """What an option would be without the project's and the user's word; None where that is not known."""
    for beaten in setting.replaced:
        if beaten.layer is Layer.BUILTIN_OVERLAY or _of(beaten) in of_profiles:
            return truth(beaten.value)
    option = tree.options.get(setting.name)
    return truth(option.default) if option is not None else None


def _segment(name: str) -> str:
    letters = re.sub(r"[^a-z0-9]", "", name.lower())
    return letters if re.search(r"[a-z]", letters) else f"profile{letters}"
