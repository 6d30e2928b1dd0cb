"""Kernels of official wheels that no PEP 517 build creates: native-AOT stage 2."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from torchwheel.hardware.architecture import Architecture
from torchwheel.plan.build_plan import Plan
from torchwheel.preflight.facts import NOT_INSTALLED
from torchwheel.preflight.registry import Answer, Context, Passed, Violation, checks_machine, require_known
from torchwheel.preflight.tree_facts import NATIVE_AOT
from torchwheel.reporting.terminal import join_items
from torchwheel.system.paths import exists
from torchwheel.system.toml import shipped_toml
from torchwheel.versions import at_least


@checks_machine("native-aot-kernels-missing")
def has_all_kernels(context: Context) -> Answer:
    """The script reads the wheel's own architectures, and needs torch installed."""
    plan, table = context.plan, _read_table()
    exportable = require_known(context.tree.native_aot)
    built = plan.architectures.architectures if plan.architectures else ()
    concerned = [one.dotted for one in built if _is_exportable(one, exportable)]
    if plan.host.system != "Linux" or not concerned:
        return None
    given = {**plan.settings.variables, **plan.settings.defines}
    if any(name in given and given[name].off for name in table["variables"]):
        return Passed()
    python = plan.host.python.version
    older = "" if at_least(python, table["python"]) else f", and Python {table['python']}, not {python}"
    return Violation(
        {
            "architectures": join_items(concerned),
            "zip": ", which is not on PATH" if context.host.tools.get("zip") == NOT_INSTALLED else "",
            "older": older,
            "commands": "\n".join(["", *_make_commands(plan)]),
        }
    )


def _is_exportable(architecture: Architecture, exportable: tuple[str, ...]) -> bool:
    return architecture.sm in exportable if exportable else architecture.major in _read_table()["majors"]


def _make_commands(plan: Plan) -> Iterator[str]:
    """Yield the commands that add the kernels to a wheel, to run in its folder."""
    folders, table = plan.folders, _read_table()
    environment, link = folders.root / "native-aot", folders.source / "build"
    programs, wheel = environment / "bin", plan.wheel_name
    yield shlex.join([f"python{plan.host.python.minor_version}", "-m", "venv", str(environment)])
    yield shlex.join([str(programs / "pip"), "install", "cmake", *table["packages"], wheel])
    if link != folders.build and not exists(link):
        # The script expects the build folder there.
        yield shlex.join(["ln", "-s", str(folders.build), str(link)])
    path = f'PATH={shlex.quote(str(programs))}:"$PATH"'
    arch = f"TORCH_CUDA_ARCH_LIST={shlex.quote(str(plan.architectures))}"
    script = [str(programs / "python"), str(folders.source / table["script"]), "--wheel", wheel]
    yield f"{path} {arch} {shlex.join(script)}"
    yield shlex.join(["torchwheel", "inspect", wheel])


def _read_table() -> Mapping[str, Any]:
    return shipped_toml(NATIVE_AOT)
