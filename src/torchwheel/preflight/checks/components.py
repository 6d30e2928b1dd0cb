"""Components against platform, machine, each other and the release."""

from __future__ import annotations

from torchwheel.preflight.build_matrix import Combination
from torchwheel.preflight.context import Scene
from torchwheel.preflight.machine_limits import machine_limits
from torchwheel.preflight.registry import Answer, Broken, Fine, checks_combination, checks_machine
from torchwheel.pytorch.options import options
from torchwheel.settings.components import components

_FAMILIES = ("USE_", "BUILD_")


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
            return Broken(values, component.name, combination.options[option].origin)
    return Fine({"system": combination.system})


@checks_combination("option-not-on-machine")
def on_machine(combination: Combination) -> Answer:
    """Libraries that exist for some processors only."""
    for limit in machine_limits():
        option = combination.options.get(limit.option)
        if option is None or combination.machine in limit.machines or not limit.is_meant(option.value):
            continue
        values = {
            "option": limit.option,
            "value": option.value,
            "machine": combination.machine,
            "reason": limit.why,
        }
        return Broken(values, limit.instead, option.origin)
    return Fine({"machine": combination.machine})


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
        return Fine()
    values = {"pytorch": pytorch.version, "options": ", ".join(lacking)}
    return Broken(values, f"leave out {', '.join(lacking)}", combination.options[lacking[0]].origin)


@checks_combination("install-prefix-not-free")
def no_prefix(combination: Combination) -> Answer:
    """In instructions for plain CMake the option is everywhere; a wheel is installed by pip."""
    option = combination.options.get("CMAKE_INSTALL_PREFIX")
    return Fine() if option is None else Broken({"value": option.value}, origin=option.origin)


@checks_machine("distributed-needs-libuv")
def libuv(scene: Scene) -> Answer:
    """On Windows torch.distributed is on by default, and gloo needs libuv there."""
    combination = scene.combination
    if combination.system != "Windows" or not scene.mentions("libuv_ROOT", "LIBUV_INCLUDE_DIRS", "libuv"):
        return None
    given = {**scene.environment, **scene.plan.settings.variables}
    if combination.off("USE_DISTRIBUTED") or "libuv_ROOT" in given or "LIBUV_ROOT" in given:
        return Fine()
    return Broken(nearest="distributed")
