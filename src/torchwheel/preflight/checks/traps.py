"""Checks for compilers and programs with known faults: ``traps.toml``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from packaging.specifiers import SpecifierSet

from torchwheel.preflight.build_matrix import Combination
from torchwheel.preflight.registry import (
    Answer,
    Context,
    Passed,
    Unknown,
    Violation,
    checks_combination,
    checks_machine,
    known_cuda,
    require_known,
)
from torchwheel.system.toml import shipped_toml

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
