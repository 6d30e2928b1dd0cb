"""Checks of components and the libraries that they need, and of the tree's files."""

from __future__ import annotations

from functools import partial
from pathlib import Path, PurePath

from torchwheel.plan.defines import is_known
from torchwheel.preflight.facts import Installed
from torchwheel.preflight.registry import (
    Answer,
    Context,
    Passed,
    Unknown,
    Violation,
    checks_machine,
    known_pytorch,
    require_known,
)
from torchwheel.preflight.tree_facts import NATIVE_AOT
from torchwheel.pytorch.releases import build_options
from torchwheel.reporting.terminal import join_items
from torchwheel.system.toml import shipped_toml
from torchwheel.versions import at_least, parse_numbers

# The first cuDNN that drops older GPUs, and its minimum compute capability.
_CUDNN_WITHOUT_OLD, _CUDNN_LEAST = "9.11", "7.5"


@checks_machine("option-not-on-machine")
def on_machine(context: Context) -> Answer:
    for limit in shipped_toml(Path(__file__).parents[1] / "machine_limits.toml")["limit"]:
        option = context.options.get(limit["option"])
        if option is None or context.machine.machine in limit["machines"]:
            continue
        unsupported = option.text.lower() == limit["value"].lower() if "value" in limit else option.on
        if unsupported:
            values = {"option": option.name, "value": option.text, "machine": context.machine.machine}
            return Violation({**values, "reason": limit["why"]}, limit["instead"], option.origin)
    return Passed()


@checks_machine("option-not-in-pytorch")
def in_release(context: Context) -> Answer:
    """The plan reports options that the tree does not mention, but some are mentioned only in its summary."""
    pytorch = known_pytorch(context)
    lacking = [
        name
        for name in sorted(context.options)
        if is_known(context.plan.tree, name)
        and name.startswith(("USE_", "BUILD_"))
        and not context.is_off(name)
        and name in build_options()
        and pytorch.lacks_option(name)
    ]
    if not lacking:
        return Passed()
    values = {"pytorch": pytorch.version, "options": ", ".join(lacking)}
    instead = [build_options()[name].instead for name in lacking if build_options()[name].instead]
    remedy = ": ".join([f"leave out {', '.join(lacking)}", *(["; ".join(instead)] if instead else [])])
    return Violation(values, remedy, context.options[lacking[0]].origin)


def _not_taken(context: Context, name: str) -> Answer:
    """Check an option that a build with torchwheel cannot have."""
    option = context.options.get(name)
    if option is None:
        return None
    return Passed() if option.off else Violation({"value": option.text}, origin=option.origin)


# CMake switches XPU off without oneAPI, and would go on. Instructions for plain CMake set the prefix, but pip installs
# a wheel.
for _id, _option in (
    ("rocm-not-built", "USE_ROCM"),
    ("xpu-not-built", "USE_XPU"),
    ("install-prefix-not-free", "CMAKE_INSTALL_PREFIX"),
):
    checks_machine(_id)(partial(_not_taken, name=_option))


@checks_machine("distributed-needs-libuv")
def libuv_found(context: Context) -> Answer:
    """On Windows torch.distributed is on by default, and works without libuv."""
    if not context.windows or not context.has_identifier("libuv_ROOT", "LIBUV_INCLUDE_DIRS", "libuv"):
        return None
    given = {**context.host.environment, **context.plan.settings.variables}
    if context.is_off("USE_DISTRIBUTED") or "libuv_ROOT" in given or "LIBUV_ROOT" in given:
        return Passed()
    if "CONDA_PREFIX" in given:
        return Unknown("whether conda's environment has libuv")
    asked = " is requested" if context.is_on("USE_DISTRIBUTED") else " is on by default"
    return Violation({"asked": asked}, "distributed")


def _wants_cudnn(context: Context) -> bool:
    wanted = "USE_CUDNN" in context.plan.tree.options and not context.is_off("USE_CUDNN")
    return wanted and context.plan.architectures is not None


def _installed_cudnn(context: Context) -> Installed:
    """Return the cuDNN that the build would use, or raise NotJudged."""
    found = require_known(context.host.libraries.get("cudnn"), "cuDNN") if _wants_cudnn(context) else None
    return require_known(found if found and found.there else None)


@checks_machine("no-cudnn")
def cudnn_enabled(context: Context) -> Answer:
    return None if context.is_on("USE_CUDNN") else _is_there(context)


@checks_machine("requested-cudnn-missing")
def requested_cudnn(context: Context) -> Answer:
    return _is_there(context) if context.is_on("USE_CUDNN") else None


def _is_there(context: Context) -> Answer:
    pytorch, toolkit = context.pytorch, context.plan.toolkit
    if not _wants_cudnn(context) or toolkit is None:
        return None
    found = require_known(context.host.libraries.get("cudnn"), "cuDNN")
    if found.there:
        return Passed()
    if found.path:
        link = f"make that a link to {PurePath(found.path).name}.* beside it"
        return Violation({"only": _not_linkable(found)}, link)
    newest = pytorch.cudnn.newest_major if pytorch else 9
    release = f"cuDNN {newest} for CUDA {toolkit.version}"
    advice = f"install {release} beside the toolkit, or name it: -C define.CUDNN_ROOT=/path"
    return Violation({"only": ""}, advice)


def _not_linkable(library: Installed) -> str:
    return f" to link: {library.path} is missing"


@checks_machine("cudnn-lacks-architecture")
def cudnn_runs(context: Context) -> Answer:
    code, found = require_known(context.plan.architectures), _installed_cudnn(context)
    lacking = [one.dotted for one in code.architectures if not at_least(one.capability.dotted, _CUDNN_LEAST)]
    if not lacking or not at_least(found.version, _CUDNN_WITHOUT_OLD):
        return Passed()
    return Violation({"cudnn": found.version, "lacking": ", ".join(lacking)}, "9.10")


@checks_machine("no-cutlass")
def cutlass_found(context: Context) -> Answer:
    """In a checkout it is a submodule, which another rule checks; trees of distributions lack it."""
    tree, source = context.plan.tree, context.tree.needs_cutlass
    if context.plan.architectures is None or "third_party/cutlass" in tree.missing_submodules:
        return None
    if not source:
        return Passed()
    there = require_known(context.host.libraries.get("cutlass"), "CUTLASS").there
    return Passed() if there else Violation({"source": source}, "sudo apt-get install libcutlass-dev")


@checks_machine("cudnn-not-supported")
def cudnn_version(context: Context) -> Answer:
    found = _installed_cudnn(context)
    pytorch = known_pytorch(context)
    least, newest = pytorch.cudnn.minimum, pytorch.cudnn.newest_major
    values = {
        "pytorch": pytorch.version,
        "cudnn": found.version,
        "path": found.path,
        "needed": f"cuDNN {least} to {newest}",
    }
    if at_least(found.version, least) and parse_numbers(found.version)[0] <= newest:
        return Passed()
    return Violation(values, str(newest))


@checks_machine("no-system-nccl")
def system_nccl(context: Context) -> Answer:
    if not context.is_on("USE_SYSTEM_NCCL") or context.is_off("USE_NCCL"):
        return None
    found = require_known(context.host.libraries.get("nccl"), "NCCL")
    if found.there:
        return Passed()
    return Violation({"only": _not_linkable(found) if found.path else ""}, "system-nccl")


@checks_machine("system-nccl-too-old")
def system_nccl_new_enough(context: Context) -> Answer:
    """The tree's own NCCL, by its tag, is the version that it is known to work with."""
    if not context.is_on("USE_SYSTEM_NCCL") or context.is_off("USE_NCCL"):
        return None
    found, newest = require_known(context.host.libraries.get("nccl"), "NCCL"), context.tree.nccl
    if not found.there or not newest:
        return None
    values = {"nccl": found.version, "tree": newest}
    return Passed() if at_least(found.version, newest) else Violation(values, newest)


@checks_machine("nvshmem-too-old")
def nvshmem_new_enough(context: Context) -> Answer:
    wanted = context.tree.nvshmem
    without = ("USE_NVSHMEM", "USE_DISTRIBUTED", "USE_CUDA")
    if not wanted or context.plan.architectures is None or any(map(context.is_off, without)):
        return None
    found = require_known(context.host.libraries.get("nvshmem"), "NVSHMEM")
    if not found.there:
        return None
    values = {"nvshmem": found.version, "path": found.path, "tree": wanted}
    return Passed() if at_least(found.version, wanted) else Violation(values, wanted)


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
