"""cuDNN and NCCL."""

from __future__ import annotations

from torchwheel.preflight.context import Scene
from torchwheel.preflight.registry import Answer, Broken, Fine, checks_machine
from torchwheel.versions import at_least, numbers


def _wants_cudnn(scene: Scene) -> bool:
    combination = scene.combination
    return (
        combination.architectures is not None
        and not combination.off("USE_CUDNN")
        and "USE_CUDNN" in scene.plan.tree.options
    )


@checks_machine("no-cudnn")
def cudnn(scene: Scene) -> Answer:
    """PyTorch builds without it, and nobody notices until training is slow."""
    found = scene.host.libraries.get("cudnn")
    if found is None or not _wants_cudnn(scene) or scene.plan.toolkit is None:
        return None
    if found.there:
        return Fine({"cudnn": found.version})
    asked = ", although it is asked for" if scene.combination.on("USE_CUDNN") else ""
    pytorch = scene.combination.pytorch
    newest = pytorch.cudnn.newest_major if pytorch else 9
    return Broken({"asked": asked, "version": scene.plan.toolkit.version}, str(newest))


@checks_machine("cudnn-not-supported")
def cudnn_version(scene: Scene) -> Answer:
    """PyTorch's CMake refuses an old one; a new major version has another API."""
    found, pytorch = scene.host.libraries.get("cudnn"), scene.combination.pytorch
    if found is None or not found.there or not _wants_cudnn(scene) or pytorch is None:
        return None
    least, newest = pytorch.cudnn.minimum, pytorch.cudnn.newest_major
    values = {
        "pytorch": pytorch.version,
        "cudnn": found.version,
        "path": found.path,
        "needed": f"cuDNN {least} to {newest}",
    }
    if at_least(found.version, least) and numbers(found.version)[0] <= newest:
        return Fine(values)
    return Broken(values, str(newest))


@checks_machine("no-system-nccl")
def system_nccl(scene: Scene) -> Answer:
    """USE_SYSTEM_NCCL takes what is installed, and fails without."""
    found, combination = scene.host.libraries.get("nccl"), scene.combination
    if found is None or not combination.on("USE_SYSTEM_NCCL") or combination.off("USE_NCCL"):
        return None
    return Fine({"nccl": found.version}) if found.there else Broken(nearest="system-nccl")


@checks_machine("nccl-fetched-offline")
def nccl_fetched(scene: Scene) -> Answer:
    """Since 2.7 the build clones NCCL's repository."""
    combination = scene.combination
    unneeded = any(combination.off(name) for name in ("USE_NCCL", "USE_DISTRIBUTED"))
    if combination.architectures is None or combination.system != "Linux" or not scene.tree.fetches_nccl:
        return None
    if unneeded or combination.on("USE_SYSTEM_NCCL") or scene.host.online is None:
        return None
    return Fine() if scene.host.online else Broken(nearest="nccl")
