"""The source tree: submodules at the commits it was made with, and nothing left of an earlier build by hand."""

from __future__ import annotations

from torchwheel.preflight.context import Context
from torchwheel.preflight.formatting import listed
from torchwheel.preflight.registry import Answer, Passed, Violation, checks_machine


@checks_machine("submodules-at-other-commits")
def recorded_commits(context: Context) -> Answer:
    """``git checkout`` of another release leaves the submodules where they were."""
    wrong = context.tree.wrong_commits
    if not wrong:
        return Passed() if context.plan.tree.commit is not None else None
    shown = [f"{item.path} ({item.checked_out[:7]} instead of {item.recorded[:7]})" for item in wrong]
    return Violation({"shown": listed(shown, most=3), "root": str(context.plan.tree.root)})


@checks_machine("stale-cmake-cache")
def no_stale_cache(context: Context) -> Answer:
    """Toggling options over an old CMakeCache.txt is how builds fail twice for one reason."""
    stale, folder = context.tree.stale_options, context.plan.tree.root / "build"
    if not stale:
        return Passed()
    reason = (
        "torchwheel builds in a folder of its own"
        if context.plan.folders.staged
        else "torchwheel drops that cache when it configures"
    )
    values = {"options": listed(stale, most=4), "reason": reason, "folder": str(folder)}
    return Violation(values, origin=str(folder / "CMakeCache.txt"))
