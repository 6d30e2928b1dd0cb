"""What an earlier build by hand left in the tree."""

from __future__ import annotations

from torchwheel.preflight.context import Scene
from torchwheel.preflight.formatting import listed
from torchwheel.preflight.registry import Answer, Broken, Fine, checks_machine


@checks_machine("stale-cmake-cache")
def no_stale_cache(scene: Scene) -> Answer:
    """Toggling options over an old CMakeCache.txt is how builds fail twice for one reason."""
    stale = scene.tree.stale_options
    if not stale:
        return Fine()
    staged = scene.plan.folders.staged
    reason = (
        "torchwheel builds in a folder of its own"
        if staged
        else "torchwheel drops that cache when it configures"
    )
    values = {
        "options": listed(stale, most=4),
        "reason": reason,
        "folder": str(scene.plan.tree.root / "build"),
    }
    return Broken(values, origin=str(scene.plan.tree.root / "build" / "CMakeCache.txt"))
