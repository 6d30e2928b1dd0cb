"""Checks of the tree: submodules, leftovers, disk space, native-AOT kernels; and of faulty programs (traps.toml)."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from packaging.specifiers import SpecifierSet

from torchwheel.hardware.architecture import Architecture
from torchwheel.plan.build_plan import Plan
from torchwheel.preflight.effort import disk_estimate
from torchwheel.preflight.facts import NOT_INSTALLED
from torchwheel.preflight.registry import (
    Answer,
    Combination,
    Context,
    Passed,
    Unknown,
    Violation,
    checks_combination,
    checks_machine,
    known_cuda,
    require_known,
)
from torchwheel.preflight.tree_facts import NATIVE_AOT
from torchwheel.reporting.terminal import count_noun, format_gib, format_mib, join_items
from torchwheel.system.paths import exists
from torchwheel.system.toml import shipped_toml
from torchwheel.versions import at_least


@checks_machine("submodules-at-other-commits")
def recorded_commits(context: Context) -> Answer:
    """``git checkout`` of another release does not update the submodules."""
    wrong = context.tree.wrong_commits
    if not wrong:
        return Passed() if context.plan.tree.commit is not None else None
    shown = [f"{item.path} ({item.checked_out[:7]} instead of {item.recorded[:7]})" for item in wrong]
    return Violation({"shown": join_items(shown, most=3), "root": str(context.plan.tree.root)})


@checks_machine("unpackable-files")
def has_packable_files(context: Context) -> Answer:
    """Packaging would fail at the first of them, after the compile."""
    found = context.tree.unpackable
    shown = [f"{_escape_bytes(name)}: {why}" for name, why in found.items()]
    return Violation({"files": join_items(shown), "tree": str(context.plan.tree.root)}) if found else Passed()


def _escape_bytes(name: str) -> str:
    """Escape the bytes of a file's name that are not UTF-8."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


@checks_machine("foreign-libraries")
def no_foreign_libraries(context: Context) -> Answer:
    """They would be packed into the wheel, and verification would refuse it after the whole compile."""
    found, root = context.tree.foreign_libraries, context.plan.tree.root
    return Violation({"files": join_items(found), "tree": str(root)}) if found else Passed()


@checks_machine("disk-too-small")
def fits_on_disk(context: Context) -> Answer:
    """Estimated from the size of the sources, the architectures, the build type and what is built already."""
    free, tree, count = context.host.free_disk_bytes, context.tree, context.plan.architecture_count
    if free is None or not tree.cxx_bytes:
        return Unknown("the free disk" if free is None else "the size of the sources")
    debug = context.plan.settings.debug_information
    needed = disk_estimate(tree.cxx_bytes, tree.cuda_bytes, count, debug=debug, built_share=tree.built_share)
    values = {
        "needed": format_gib(needed),
        "free": format_gib(free),
        "folder": context.host.build_folder,
        "reason": f"sources of {format_mib(tree.cxx_bytes + tree.cuda_bytes)}, {count_noun(count, 'architecture')}"
        + (", debug information" if debug else ""),
    }
    if free >= needed:
        return Passed()
    return Violation(values, r"D:\torchwheel" if context.windows else "/path/on/a/larger/disk")


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


_FILE = Path(__file__).parents[1] / "traps.toml"


def _check_compiler(context: Context, *, certain: bool) -> Answer:
    """Compiler releases may refuse sources, some only under unknown further conditions (``certain`` is false)."""
    compiler = context.host.host.find_compiler("cxx")
    if compiler is None or not compiler.version:
        return Unknown("the version of the C++ compiler")
    trap = next((trap for trap in _relevant_traps(context) if trap["certain"] is certain), None)
    if trap is None:
        return Passed()
    pytorch = context.plan.tree.version_text
    values = {"compiler": compiler.title, "pytorch": pytorch, "reason": trap["why"]}
    return Violation(values, trap["instead"])


checks_machine("host-compiler-fails")(partial(_check_compiler, certain=True))
checks_machine("host-compiler-suspect")(partial(_check_compiler, certain=False))


@checks_combination("nvcc-architecture-suspect")
def compiles_right(combination: Combination) -> Answer:
    """Some CUDA releases compile wrong code, or none, for an architecture."""
    code, release = require_known(combination.architectures), known_cuda(combination)
    for trap in shipped_toml(_FILE)["nvcc"]:
        among = [one.dotted for one in code.architectures if one.capability.dotted in trap["architectures"]]
        if among and _is_among(release.version, trap["cuda"]):
            values = {"version": release.version, "architectures": ", ".join(among), "reason": trap["why"]}
            return Violation(values, trap["instead"], combination.arch_origin)
    return Passed()


def _relevant_traps(context: Context) -> Iterator[Mapping[str, Any]]:
    combination, compiler = context.combination, context.host.host.find_compiler("cxx")
    for trap in shipped_toml(_FILE)["compiler"]:
        pytorch, cuda = combination.pytorch, combination.toolkit
        if (
            compiler is not None
            and compiler.kind == trap["kind"]
            and _is_among(compiler.version, trap["versions"])
            and combination.machine in trap.get("machines", [combination.machine])
            and ("pytorch" not in trap or (pytorch and _is_among(pytorch.version, trap["pytorch"])))
            and ("cuda" not in trap or (cuda and _is_among(cuda.version, trap["cuda"])))
            and not any(combination.is_off(option) for option in trap.get("without", ()))
            and not ("flags" in trap and trap["flags"] in _cxx_flags(context))
        ):
            yield trap


def _cxx_flags(context: Context) -> str:
    flags = context.plan.settings.variables.get("CXXFLAGS")
    return str(flags.value) if flags else ""


@checks_machine("program-fails")
def programs_work(context: Context) -> Answer:
    """Some releases of build tools are known to fail; a tool installed for the build is the newest."""
    for trap in shipped_toml(_FILE)["program"]:
        name, found = trap["name"], context.host.tools.get(trap["name"])
        if context.combination.system != trap["system"] or (
            context.managed_environment and context.requires_package(name)
        ):
            continue
        if found is None:
            return Unknown(f"the version of {name}")
        if found.there and _is_among(found.version, trap["versions"]):
            values = {"program": f"{name} {found.version}", "system": trap["system"], "reason": trap["why"]}
            return Violation(values, trap["instead"])
    return Passed()


def _is_among(version: str, versions: str) -> bool:
    return SpecifierSet(versions).contains(version, prereleases=True)
