"""Components against platform, machine, each other and the release."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from torchwheel._toml import read_toml
from torchwheel.preflight.build_matrix import Combination
from torchwheel.preflight.context import Context
from torchwheel.preflight.registry import Answer, Passed, Violation, checks_combination, checks_machine
from torchwheel.pytorch.options import options
from torchwheel.settings.components import components
from torchwheel.settings.values import truth

_FAMILIES = ("USE_", "BUILD_")


@cache
def machine_limits() -> tuple[Mapping[str, Any], ...]:
    """Values of options that only some processors have: the tables of ``machine_limits.toml``."""
    return tuple(read_toml(Path(__file__).parents[1] / "machine_limits.toml")["limit"])


@checks_combination("component-not-on-platform")
def on_platform(combination: Combination) -> Answer:
    """``enable`` is checked when the settings are read; this sees options by their own names too."""
    for component in components():
        if not component.systems or combination.system in component.systems:
            continue
        for option in filter(combination.on, component.options):
            values = {
                "component": component.name,
                "option": option,
                "system": combination.system,
                "title": component.title,
                "systems": " and ".join(component.systems),
            }
            return Violation(values, component.name, combination.options[option].origin)
    return Passed({"system": combination.system})


@checks_combination("option-not-on-machine")
def on_machine(combination: Combination) -> Answer:
    """Libraries that exist for some processors only."""
    for limit in machine_limits():
        option = combination.options.get(limit["option"])
        if option is None or combination.machine in limit["machines"] or not _is_meant(limit, option.value):
            continue
        values = {
            "option": limit["option"],
            "value": option.value,
            "machine": combination.machine,
            "reason": limit["why"],
        }
        return Violation(values, limit["instead"], option.origin)
    return Passed({"machine": combination.machine})


def _is_meant(limit: Mapping[str, Any], value: str) -> bool:
    return value.lower() == limit["value"].lower() if "value" in limit else truth(value) is True


@checks_combination("option-not-in-pytorch")
def in_release(combination: Combination) -> Answer:
    """Options that a release is known not to have; one that is off harms nobody."""
    pytorch = combination.pytorch
    if pytorch is None:
        return None
    lacking = [
        name
        for name in sorted(combination.options)
        if name.startswith(_FAMILIES)
        and not combination.off(name)
        and name in options()
        and pytorch.lacks_option(name)
    ]
    if not lacking:
        return Passed()
    values = {"pytorch": pytorch.version, "options": ", ".join(lacking)}
    return Violation(values, f"leave out {', '.join(lacking)}", combination.options[lacking[0]].origin)


@checks_combination("install-prefix-not-free")
def no_prefix(combination: Combination) -> Answer:
    """In instructions for plain CMake the option is everywhere; a wheel is installed by pip."""
    option = combination.options.get("CMAKE_INSTALL_PREFIX")
    return Passed() if option is None else Violation({"value": option.value}, origin=option.origin)


@checks_machine("distributed-needs-libuv")
def libuv(context: Context) -> Answer:
    """On Windows torch.distributed is on by default, and gloo needs libuv there."""
    combination = context.combination
    if not context.windows or not context.mentions("libuv_ROOT", "LIBUV_INCLUDE_DIRS", "libuv"):
        return None
    given = {**context.environment, **context.plan.settings.variables}
    if combination.off("USE_DISTRIBUTED") or "libuv_ROOT" in given or "LIBUV_ROOT" in given:
        return Passed()
    return Violation(nearest="distributed")
