"""Compare an existing wheel's build manifest with a plan, to reuse the wheel or to avoid replacing it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from torchwheel.engine.configuring import cmake_arguments
from torchwheel.engine.tree_wheel import named_folders, recorded_options
from torchwheel.host.this import home_names
from torchwheel.plan.build_plan import Plan, is_relevant
from torchwheel.plan.defines import unpublished_options
from torchwheel.plan.output import (
    NOT_RECORDED,
    changing_settings,
    decisions_document,
    is_launcher,
)
from torchwheel.reporting.errors import Finding, TorchwheelError, error, stop_on_errors
from torchwheel.reporting.masking import MASK, mask_document
from torchwheel.reporting.terminal import join_items
from torchwheel.settings.config_settings import read_passthrough
from torchwheel.settings.value_types import is_same_value
from torchwheel.tree.git import is_checkout
from torchwheel.tree.source_files import new_files
from torchwheel.wheel.finalize import replaced_build
from torchwheel.wheel.manifest import as_written, read_manifest

_PATH = re.compile(r"[/\\~<]|[A-Za-z]:[/\\]")
"""The beginning of a path, or of a folder's replacement in a manifest."""

_COMPILER = re.compile(
    r"env\.(?:CC|CXX|CUDACXX|CUDAHOSTCXX|NVCC_CCBIN|CCACHE_COMPILER)|define\.CMAKE_[A-Z]+_COMPILER"
)

_DIRTY = "this tree has changes that are not committed"


def describe_difference(plan: Plan, wheel: Path) -> str:
    """Describe why a wheel of the right name is not what the plan would build; empty if it is."""
    try:
        manifest = read_manifest(wheel)
    except (TorchwheelError, OSError) as error:
        return error.problems[0].what if isinstance(error, TorchwheelError) else str(error)
    if manifest is None:
        return "torchwheel did not build it, so nothing is known of its options"
    made = manifest["plan"]
    return (
        _made_otherwise(plan, made)
        or _made_of_more(plan, made)
        or _more_than_commit(plan, new_files(plan.tree))
    )


def _made_of_more(plan: Plan, made: Mapping[str, Any]) -> str:
    """Describe why a wheel of the plan's commit may have more than that commit; empty if its manifest shows nothing."""
    if made.get("source", {}).get("untracked"):
        return "it was built with files that are not in the commit"
    if skipped := set(made.get("skipped_checks", ())).difference(plan.settings.skip_check):
        return f"it was built with -C skip-check={','.join(sorted(skipped))}"
    return ""


def _more_than_commit(plan: Plan, new: Sequence[str]) -> str:
    """Describe why the plan's tree may differ from its commit; empty if git confirms that it does not."""
    if not is_checkout(plan.tree.root):
        return "without git nothing says that this tree is as it was in the commit"
    if plan.tree.dirty:
        return _DIRTY
    words = (word.removeprefix("-C") for word in cmake_arguments(plan))
    named = [word for word in words if Path(word).is_absolute() and os.path.isfile(word)]  # noqa: PTH113
    if named:
        return f"manifests do not record {join_items(named)}, which CMake's arguments name"
    return f"this tree has files that are not in the commit: {join_items(new)}" if new else ""


def _made_otherwise(plan: Plan, made: Mapping[str, Any]) -> str:
    """Describe how the plan in a wheel's manifest differs from this plan; empty if it does not."""
    if not is_of_plan(made, plan):
        unknown = [key for key, value in _relevant_choices(made).items() if value in (NOT_RECORDED, MASK)]
        return (
            f"its build manifest does not tell the values of {', '.join(unknown)}, which it was built with"
            if unknown
            else "it was built with other options"
        )
    commit = made.get("source", {}).get("commit")
    if plan.tree.commit is None or commit != plan.tree.commit:
        return (
            "it was built from another commit"
            if commit and plan.tree.commit
            else "no commit says that the source is the same"
        )
    if plan.tree.dirty:
        return _DIRTY
    if made["source"].get("dirty"):
        return "it was built from a tree with changes that were not committed"
    return ""


def is_of_plan(made: Mapping[str, Any], plan: Plan) -> bool:
    """Whether a manifest's plan part is from this plan, or from one with the same options elsewhere."""
    planned = _requested_part(plan)
    if made.get("fingerprint") == plan.fingerprint:
        return _handed_on(made) == _handed_on(planned)
    choices = _relevant_choices(made)
    # A manifest does not record possible passwords, so they cannot be compared.
    return not {NOT_RECORDED, MASK}.intersection(choices.values()) and choices == _relevant_choices(planned)


def refuse_to_replace(plan: Plan, wheel: Path) -> tuple[Finding, ...]:
    """Refuse to replace a wheel of another build; returns the skipped findings."""
    found = of_another_build(plan, wheel)
    stop_on_errors(found, plan.settings.skip_check)
    return found


def of_another_build(plan: Plan, wheel: Path) -> tuple[Finding, ...]:
    """Return the error that ``wheel`` exists and is from another build; empty if it may be replaced."""
    return tuple(map(error, replaced_build(wheel, partial(_made_by_another, plan))))


def _made_by_another(plan: Plan, made: Mapping[str, Any]) -> str:
    """Describe why a manifest's plan is from another build; empty if it is not."""
    if not (otherwise := _made_otherwise(plan, made)):
        return ""
    planned = _requested_part(plan)
    old, new = map(_relevant_choices, (made, planned))
    # An isolated environment changes the interpreter and so the fingerprint; reproducible wheels have none.
    if "fingerprint" not in made:
        again = old == new and made.get("unrecorded") == planned.get("unrecorded")
    else:
        again = made["fingerprint"] == plan.fingerprint and _handed_on(made) == _handed_on(planned)
    names = [name for name in new | old if not is_same_value(old.get(name, ""), new.get(name, ""))]
    return "" if again else f"the two differ in {', '.join(names)}" if names else otherwise


def _requested_part(plan: Plan) -> dict[str, Any]:
    """Return the plan's request in the form of a manifest, with folders replaced like there."""
    options = mask_document(
        {"requested": recorded_options(plan, {define.name: define.value for define in plan.defines})}
    )
    folders = {**home_names(os.environ), **(named_folders(plan) if plan.reproducible else {})}
    return as_written(
        {
            **decisions_document(
                plan.settings, (), unpublished=unpublished_options(plan.settings, plan.tree)
            ),
            "options": options,
        },
        folders,
    )


def _handed_on(made: Mapping[str, Any]) -> dict[str, str]:
    """The requested settings of the tree's own backend that change the wheel, such as ``wheel.exclude``."""
    return {key: one for key, one in changing_settings(made).items() if read_passthrough().find_backend(key)}


def _relevant_choices(made: Mapping[str, Any]) -> dict[str, str]:
    """Options, variables and CMake's arguments that change the result.

    Of a path only its presence counts, and the last name of a requested compiler.
    """
    asked = changing_settings(made)
    found = {key: one for key, one in asked.items() if key == "cmake-args" or key.startswith("env.")}
    requested = made.get("options", {}).get("requested", {})
    found |= {name: value for name, value in requested.items() if is_relevant(name) and not is_launcher(name)}
    found = {name: "" if _PATH.match(value) else value for name, value in found.items()}
    compilers = {f"{key} is": re.split(r"[\\/]", asked[key])[-1] for key in asked if _COMPILER.fullmatch(key)}
    return {**_handed_on(made), **compilers, **found}
