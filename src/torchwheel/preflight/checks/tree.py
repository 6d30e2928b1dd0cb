"""Checks of the tree: submodules, files that cannot be packed, leftovers, and native-AOT kernels."""

from __future__ import annotations

from torchwheel.preflight.registry import (
    Answer,
    Context,
    Passed,
    Violation,
    checks_machine,
    require_known,
)
from torchwheel.preflight.tree_facts import NATIVE_AOT
from torchwheel.reporting.terminal import join_items
from torchwheel.system.toml import shipped_toml


@checks_machine("submodules-at-other-commits")
def recorded_commits(context: Context) -> Answer:
    wrong = context.tree.wrong_commits
    if not wrong:
        return Passed() if context.plan.tree.commit is not None else None
    shown = [f"{item.path} ({item.checked_out[:7]} instead of {item.recorded[:7]})" for item in wrong]
    return Violation({"shown": join_items(shown, most=3), "root": str(context.plan.tree.root)})


@checks_machine("unpackable-files")
def has_packable_files(context: Context) -> Answer:
    found = context.tree.unpackable
    # The bytes of names that are not UTF-8 are escaped.
    names = (name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace") for name in found)
    shown = [f"{name}: {why}" for name, why in zip(names, found.values(), strict=True)]
    return Violation({"files": join_items(shown), "tree": str(context.plan.tree.root)}) if found else Passed()


@checks_machine("foreign-libraries")
def no_foreign_libraries(context: Context) -> Answer:
    found, root = context.tree.foreign_libraries, context.plan.tree.root
    return Violation({"files": join_items(found), "tree": str(root)}) if found else Passed()


@checks_machine("native-aot-kernels-missing")
def has_all_kernels(context: Context) -> Answer:
    plan, table = context.plan, shipped_toml(NATIVE_AOT)
    exportable = require_known(context.tree.native_aot)
    built = plan.architectures.architectures if plan.architectures else ()
    concerned = [
        one.dotted for one in built if (one.sm in exportable if exportable else one.major in table["majors"])
    ]
    if plan.host.system != "Linux" or not concerned:
        return None
    given = {**plan.settings.variables, **plan.settings.defines}
    if any(name in given and given[name].off for name in table["variables"]):
        return Passed()
    return Violation({"architectures": join_items(concerned), "script": table["script"]})
