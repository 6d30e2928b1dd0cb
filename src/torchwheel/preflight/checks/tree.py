"""Checks of the source tree: its submodules, leftovers of an earlier manual build, and the disk space for a build."""

from __future__ import annotations

from torchwheel.preflight.effort import disk_estimate
from torchwheel.preflight.registry import Answer, Context, Passed, Unknown, Violation, checks_machine
from torchwheel.reporting.terminal import count_noun, format_gib, format_mib, join_items


@checks_machine("submodules-at-other-commits")
def recorded_commits(context: Context) -> Answer:
    """``git checkout`` of another release does not update the submodules."""
    wrong = context.tree.wrong_commits
    if not wrong:
        return Passed() if context.plan.tree.commit is not None else None
    shown = [f"{item.path} ({item.checked_out[:7]} instead of {item.recorded[:7]})" for item in wrong]
    return Violation({"shown": join_items(shown, most=3), "root": str(context.plan.tree.root)})


@checks_machine("stale-cmake-cache")
def no_stale_cache(context: Context) -> Answer:
    """An old CMakeCache.txt keeps its values when options change."""
    stale, folder = context.tree.stale_options, context.plan.tree.root / "build"
    if not stale:
        return Passed()
    reason = (
        "torchwheel builds in a folder of its own"
        if context.plan.folders.staged
        else "torchwheel drops that cache when it configures"
    )
    values = {"options": join_items(stale, most=4), "reason": reason, "folder": str(folder)}
    return Violation(values, origin=str(folder / "CMakeCache.txt"))


@checks_machine("unpackable-files")
def has_packable_files(context: Context) -> Answer:
    """Packaging would fail at the first of them, after the compile."""
    found = context.tree.unpackable
    shown = [f"{_escape_bytes(name)}: {why}" for name, why in found.items()]
    return (
        Violation({"files": "; ".join(shown[:5]), "tree": str(context.plan.tree.root)}) if found else Passed()
    )


def _escape_bytes(name: str) -> str:
    """Escape the bytes of a file's name that are not UTF-8."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


@checks_machine("foreign-libraries")
def no_foreign_libraries(context: Context) -> Answer:
    """They would be packed into the wheel, and verification would refuse it after the whole compile."""
    found, root = context.tree.foreign_libraries, context.plan.tree.root
    return Violation({"files": join_items(found), "tree": str(root)}) if found else Passed()


@checks_machine("build-tools-missing")
def same_tools(context: Context) -> Answer:
    """CMake's own version is in everything it generates."""
    missing = context.tree.missing_tools
    return (
        Violation({"tools": join_items(missing), "folder": str(context.plan.folders.build)})
        if missing
        else Passed()
    )


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
        return Passed(values)
    return Violation(values, r"D:\torchwheel" if context.windows else "/path/on/a/larger/disk")
