"""cuDNN and NCCL."""

from __future__ import annotations

from torchwheel.preflight.context import Context
from torchwheel.preflight.registry import Answer, Passed, Violation, checks_machine
from torchwheel.versions import at_least, numbers


def _wants_cudnn(context: Context) -> bool:
    combination = context.combination
    return (
        combination.architectures is not None
        and not combination.off("USE_CUDNN")
        and "USE_CUDNN" in context.plan.tree.options
    )


@checks_machine("no-cudnn")
def cudnn(context: Context) -> Answer:
    """PyTorch builds without it, and nobody notices until training is slow."""
    found = context.host.libraries.get("cudnn")
    if found is None or not _wants_cudnn(context) or context.plan.toolkit is None:
        return None
    if found.there:
        return Passed({"cudnn": found.version})
    asked = ", although it is asked for" if context.combination.on("USE_CUDNN") else ""
    pytorch = context.combination.pytorch
    newest = pytorch.cudnn.newest_major if pytorch else 9
    return Violation({"asked": asked, "version": context.plan.toolkit.version}, str(newest))


@checks_machine("cudnn-not-supported")
def cudnn_version(context: Context) -> Answer:
    """PyTorch's CMake refuses an old one; a new major version has another API."""
    found, pytorch = context.host.libraries.get("cudnn"), context.combination.pytorch
    if found is None or not found.there or not _wants_cudnn(context) or pytorch is None:
        return None
    least, newest = pytorch.cudnn.minimum, pytorch.cudnn.newest_major
    values = {
        "pytorch": pytorch.version,
        "cudnn": found.version,
        "path": found.path,
        "needed": f"cuDNN {least} to {newest}",
    }
    if at_least(found.version, least) and numbers(found.version)[0] <= newest:
        return Passed(values)
    return Violation(values, str(newest))


@checks_machine("no-system-nccl")
def system_nccl(context: Context) -> Answer:
    """USE_SYSTEM_NCCL takes what is installed, and fails without."""
    found, combination = context.host.libraries.get("nccl"), context.combination
    if found is None or not combination.on("USE_SYSTEM_NCCL") or combination.off("USE_NCCL"):
        return None
    return Passed({"nccl": found.version}) if found.there else Violation(nearest="system-nccl")


@checks_machine("nccl-fetched-offline")
def nccl_fetched(context: Context) -> Answer:
    """Since 2.7 the build clones NCCL's repository."""
    combination = context.combination
    unneeded = any(combination.off(name) for name in ("USE_NCCL", "USE_DISTRIBUTED"))
    if combination.architectures is None or combination.system != "Linux" or not context.tree.fetches_nccl:
        return None
    if unneeded or combination.on("USE_SYSTEM_NCCL") or context.host.online is None:
        return None
    return Passed() if context.host.online else Violation(nearest="nccl")
