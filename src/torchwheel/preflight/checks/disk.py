"""Whether the build fits on its disk."""

from __future__ import annotations

from torchwheel.preflight.context import Scene
from torchwheel.preflight.disk_estimate import estimate
from torchwheel.preflight.formatting import counted, gib, mib
from torchwheel.preflight.registry import Answer, Broken, Fine, checks_machine


@checks_machine("disk-too-small")
def fits(scene: Scene) -> Answer:
    """Estimated from the size of the sources, the architectures and the build type."""
    free, tree = scene.host.free_disk_bytes, scene.tree
    if free is None or not tree.cxx_bytes:
        return None
    code = scene.plan.architectures
    architectures = len(code.architectures) if code else 0
    debug = scene.plan.settings.build_type in ("Debug", "RelWithDebInfo")
    needed = estimate(tree.cxx_bytes, tree.cuda_bytes, architectures, debug=debug)
    values = {
        "needed": gib(needed),
        "free": gib(free),
        "folder": scene.host.build_folder,
        "reason": f"sources of {mib(tree.cxx_bytes + tree.cuda_bytes)}, {counted(architectures, 'architecture')}"
        + (", debug information" if debug else ""),
    }
    if free >= needed:
        return Fine(values)
    windows = scene.host.host.system == "Windows"
    return Broken(values, r"D:\torchwheel" if windows else "/path/on/a/larger/disk")
