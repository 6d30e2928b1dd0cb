"""Whether the submodules are those that the tree was made with."""

from __future__ import annotations

from torchwheel.preflight.context import Scene
from torchwheel.preflight.formatting import listed
from torchwheel.preflight.registry import Answer, Broken, Fine, checks_machine


@checks_machine("submodules-at-other-commits")
def recorded_commits(scene: Scene) -> Answer:
    """``git checkout`` of another release leaves the submodules where they were."""
    wrong = scene.tree.wrong_commits
    if not wrong:
        return Fine() if scene.plan.tree.commit is not None else None
    shown = [f"{item.path} ({item.checked_out[:7]} instead of {item.recorded[:7]})" for item in wrong]
    return Broken({"shown": listed(shown, most=3), "root": str(scene.plan.tree.root)})
