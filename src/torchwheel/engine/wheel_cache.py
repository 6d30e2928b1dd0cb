"""Wheels that were built before: found in folders and indexes by their build manifest, and kept there for others."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from torchwheel._files import atomic_copy, cannot_write, disk_is_full, folder_beside, hand_over
from torchwheel.engine.configuring import cmake_arguments
from torchwheel.engine.finalize import expected_wheel, named_folders
from torchwheel.engine.process import ProcessFailed, run_streaming
from torchwheel.errors import Problem, TorchwheelError
from torchwheel.findings import Finding, error, stop_on_errors
from torchwheel.host.this import home_folder
from torchwheel.plan.fingerprint import matters
from torchwheel.plan.model import Plan
from torchwheel.plan.output import NOT_RECORDED, decisions, is_launcher, is_only_how, recorded_settings
from torchwheel.settings.config_settings import passthrough
from torchwheel.settings.value_types import same
from torchwheel.terminal import listed, say
from torchwheel.tree.git import is_checkout
from torchwheel.tree.read import source_now
from torchwheel.tree.source_files import new_files
from torchwheel.wheel.archive import open_wheel
from torchwheel.wheel.contents import inspect_wheel
from torchwheel.wheel.finalize import replaced_build
from torchwheel.wheel.manifest import as_written, read_manifest
from torchwheel.wheel.record import altered
from torchwheel.wheel.verify import verify_wheel

_BRIEFLY = ("--retries", "1", "--timeout", "15")
"""One more attempt, and so many seconds of silence. Source: pip's help."""

_MOST_SECONDS = 30 * 60
"""An index that answers in small bits is left after so long. A build is the way out, and takes hours."""

_MOST_MEMORY = 2 << 30
"""pip reads a page of an index as a whole, and then takes several times its size."""

_MOST_FILE = 16 << 30
"""No wheel of PyTorch comes near it."""

_LIMITED_PIP = """\
import sys
sys.path[:] = filter(None, sys.path)
import runpy
try:
    import resource
    for name, most in (("RLIMIT_DATA", {memory}), ("RLIMIT_FSIZE", {file})):
        resource.setrlimit(getattr(resource, name), (most, most))
except (ImportError, OSError, ValueError):
    pass  # Windows has none, and a lower one stays
sys.argv[0] = "pip"
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""

_PATH = re.compile(r"[/\\~<]|[A-Za-z]:[/\\]")
"""How a path of a machine begins, and what stands for a folder in a manifest."""

_COMPILER = re.compile(
    r"env\.(?:CC|CXX|CUDACXX|CUDAHOSTCXX|NVCC_CCBIN|CCACHE_COMPILER)|define\.CMAKE_[A-Z]+_COMPILER"
)

_DIRTY = "this tree has changes that are not committed"

_SECRET = re.compile(r"//[^/@]*@")
"""The user and password in an address."""


def places(plan: Plan) -> tuple[Path | str, ...]:
    """The folders, and the addresses of the indexes, of the setting ``wheel-cache``."""
    return tuple(place if "://" in place else Path(place) for place in plan.settings.wheel_cache)


def take(plan: Plan, folder: Path, prepared: bytes | None, environment: Mapping[str, str]) -> Path | None:
    """Copy a wheel that was built for this plan into ``folder``, if one is in the wheel cache; says so, and why not.

    It passes the proof that a build of this plan would have to pass.

    Args:
        folder: gets the wheel.
        prepared: the METADATA that a prepare hook has returned.

    Raises:
        TorchwheelError: it cannot be written.
    """
    for wheel in candidates(plan, places(plan), environment):
        if why := difference(plan, wheel) or copied(plan, wheel, folder, prepared):
            say(f"{wheel} does not serve: {why}")
            continue
        say(f"nothing is built: {wheel} was built for this plan, from this commit")
        return folder / wheel.name
    return None


def copied(plan: Plan, wheel: Path, folder: Path, prepared: bytes | None) -> str:
    """Copy a wheel that was built for a plan, and prove the copy before it gets its name.

    Returns:
        Why it was not copied; empty where it was.

    Raises:
        TorchwheelError: the disk is full.
    """
    target = folder / wheel.name
    try:
        # What lies elsewhere may be replaced between its proof and its copy, and a network may lose the rest of it.
        with folder_beside(target) as beside:
            copy = beside / wheel.name
            atomic_copy(wheel, copy)
            if why := difference(plan, copy) or unfit(plan, copy, prepared):
                return why
            hand_over(copy, target)
    except OSError as error:
        if disk_is_full(error):
            raise TorchwheelError(cannot_write(target, error)) from error
        return str(error)
    return ""


def unfit(plan: Plan, wheel: Path, prepared: bytes | None) -> str:
    """Why a wheel does not pass the proof that a build of the plan would have to pass; empty where it does."""
    try:
        problems = [*verify_wheel(inspect_wheel(wheel), expected_wheel(plan, prepared, editable=False))]
        with open_wheel(wheel) as archive:
            problems += altered(archive)
    except TorchwheelError as error:
        problems = list(error.problems)
    except OSError as error:
        return str(error)
    return problems[0].what if problems else ""


def keep(plan: Plan, wheel: Path, new: Sequence[str]) -> None:
    """Copy a wheel that was built into the first folder of the wheel cache that takes it, if it is its commit's.

    Args:
        new: the source files that it was built of and that are in no commit.
    """
    kept = [place for place in places(plan) if isinstance(place, Path)]
    if kept and (why := _more_than_commit(plan, new) or _changed_meanwhile(plan)):
        say(f"{wheel.name} is not put into the wheel cache: {why}")
        return
    for place in kept:
        try:
            place.mkdir(parents=True, exist_ok=True)
            atomic_copy(wheel, place / wheel.name)
        except (OSError, TorchwheelError) as failure:
            say(f"{wheel.name} could not be put into {place}: {failure}")
            continue
        return


def candidates(plan: Plan, places: Iterable[Path | str], environment: Mapping[str, str]) -> Iterator[Path]:
    """Wheels of the name that the plan has, in folders and indexes."""
    for place in places:
        if isinstance(place, Path):
            if (place / plan.wheel_name).is_file():
                yield place / plan.wheel_name
            continue
        index = _SECRET.sub("//...@", place)
        say(f"looking for {plan.distribution} {plan.version} in {index}")
        # A build is the way out. pip's own default is six attempts, and PIP_DEFAULT_TIMEOUT may be minutes.
        options = (f"{plan.distribution}=={plan.version}", "--index-url", place, *_BRIEFLY)
        try:
            folder = plan.folders.cache / "wheels"
            yield fetched(plan, options, folder, environment, quietly=True, limit=_MOST_SECONDS)
        except (TorchwheelError, OSError) as refusal:
            why = refusal if isinstance(refusal, OSError) else f"what pip says is in {_log(plan)}"
            say(f"no wheel came from {index}: {why}")


def fetched(
    plan: Plan,
    arguments: tuple[str, ...],
    folder: Path,
    environment: Mapping[str, str],
    check: Callable[[Path], None] = lambda _wheel: None,
    *,
    quietly: bool = False,
    limit: float | None = None,
) -> Path:
    """A wheel that pip downloads, without its dependencies.

    Args:
        arguments: what pip takes the wheel by.
        folder: gets the wheel.
        check: raises for a wheel that is not the one; find-links and further indexes of pip's settings have others.
        quietly: whether what pip prints goes to the log alone.
        limit: seconds after which pip is ended.

    Raises:
        TorchwheelError: pip failed, or downloaded something else.
        OSError: the folder or the log cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log = _log(plan)
    log.parent.mkdir(parents=True, exist_ok=True)
    program = _LIMITED_PIP.format(memory=_MOST_MEMORY, file=_MOST_FILE)
    options = ("--disable-pip-version-check", "download", "--no-deps", "--only-binary", ":all:")
    with folder_beside(folder / "torchwheel-get") as temporary:
        try:
            run_streaming(
                [sys.executable, "-c", program, *options, "-d", str(temporary), *arguments],
                folder=folder,
                environment=environment,
                log=log,
                show=(lambda _line: b"") if quietly else None,
                stall_warning=plan.settings.stall_warning,
                limit=limit,
            )
        except ProcessFailed as failure:
            raise TorchwheelError(_not_fetched(arguments, failure.log)) from failure
        wheels = list(temporary.glob("*.whl"))
        if len(wheels) != 1:
            raise TorchwheelError(_not_fetched(arguments, log))
        check(wheels[0])
        return wheels[0].replace(folder / wheels[0].name)


def _log(plan: Plan) -> Path:
    return plan.folders.cache / "get.log"


def difference(plan: Plan, wheel: Path) -> str:
    """Why a wheel of the right name is not what the plan would build; empty where it is."""
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
    """Why a wheel of the plan's commit is not what that commit makes; empty where its manifest knows nothing."""
    if made.get("source", {}).get("untracked"):
        return "it was built with files that are not in the commit"
    if skipped := set(made.get("skipped_checks", ())).difference(plan.settings.skip_check):
        return f"it was built with -C skip-check={','.join(sorted(skipped))}"
    return ""


def _more_than_commit(plan: Plan, new: Sequence[str]) -> str:
    """Why what is built from the plan's tree need not be what its commit makes; empty where git says that it is."""
    if not is_checkout(plan.tree.root):
        return "without git nothing says that this tree is as it was in the commit"
    if plan.tree.dirty:
        return _DIRTY
    words = (word.removeprefix("-C") for word in cmake_arguments(plan))
    named = [word for word in words if Path(word).is_absolute() and os.path.isfile(word)]  # noqa: PTH113
    if named:
        return f"no build manifest tells what {listed(named)} holds, which CMake's arguments name"
    return f"this tree has files that are not in the commit: {listed(new)}" if new else ""


def _changed_meanwhile(plan: Plan) -> str:
    """Why a wheel that was built from a plan may hold what its commit does not; empty for a copy that nobody edits."""
    if not plan.folders.staged:
        now = source_now(plan.tree)
        if (now.commit, now.dirty) != (plan.tree.commit, plan.tree.dirty) or new_files(plan.tree):
            return "this tree was changed while it was built"
    return ""


def _made_otherwise(plan: Plan, made: Mapping[str, Any]) -> str:
    """Why a wheel is not what the plan would build, by its manifest's part of the plan; empty where it is."""
    if not is_of_plan(made, plan):
        unknown = [key for key, value in _choices(made).items() if value == NOT_RECORDED]
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
    """Whether the plan's part of a manifest is of this plan, or of one with the same options elsewhere."""
    planned = _planned(plan)
    if _handed_on(made) != _handed_on(planned):
        return False
    if made.get("fingerprint") == plan.fingerprint:
        return True
    choices = _choices(made)
    # Of what may be a password, no manifest says whether it was the same.
    return NOT_RECORDED not in choices.values() and choices == _choices(planned)


def _other_names(made: Mapping[str, Any], plan: Plan) -> list[str]:
    """The options, and settings of the tree's own backend, in which a manifest's plan differs from this one."""
    planned = _planned(plan)
    pairs = [(_handed_on(made), _handed_on(planned))]
    if before := made.get("options", {}).get("requested", {}):
        pairs.append((before, planned["options"]["requested"]))
    return [
        name
        for old, new in pairs
        for name in new | old
        if not is_launcher(name) and not same(old.get(name, ""), new.get(name, ""))
    ]


def refuse_to_replace(plan: Plan, wheel: Path) -> tuple[Finding, ...]:
    """Stop where a wheel that another build made would be replaced; what ``skip-check`` lets pass is returned."""
    found = of_another_build(plan, wheel)
    stop_on_errors(found, plan.settings.skip_check)
    return found


def of_another_build(plan: Plan, wheel: Path) -> tuple[Finding, ...]:
    """The error that ``wheel`` is there and another build made it; empty where it is not, or may be replaced."""
    return tuple(map(error, replaced_build(wheel, partial(_made_by_another, plan))))


def _made_by_another(plan: Plan, made: Mapping[str, Any]) -> str:
    """What shows that a manifest's plan is of another build than this; empty for nothing."""
    # An isolated environment is another interpreter each time, so another fingerprint; reproducible wheels have none.
    of_plan = "fingerprint" not in made or made["fingerprint"] == plan.fingerprint
    otherwise, planned = _made_otherwise(plan, made), _planned(plan)
    again = all(one(made) == one(planned) for one in (_handed_on, _choices, _unrecorded))
    if not otherwise or (of_plan and (again or is_of_plan(made, plan))):
        return ""
    names = [] if is_of_plan(made, plan) else _other_names(made, plan)
    return f"the two differ in {', '.join(names)}" if names else otherwise


def _unrecorded(made: Mapping[str, Any]) -> object:
    return made.get("unrecorded")


def _planned(plan: Plan) -> dict[str, Any]:
    """The part of a manifest that says what was asked for, with folders as the manifest has them."""
    options = {"requested": {define.name: define.value for define in plan.defines}}
    folders = {home_folder(os.environ): "~", **(named_folders(plan) if plan.reproducible else {})}
    return as_written({**decisions(plan.settings, ()), "options": options}, folders)


def _handed_on(made: Mapping[str, Any]) -> dict[str, str]:
    """What was asked of the tree's own backend, such as ``wheel.exclude``, and changes what is in the wheel."""
    asked = recorded_settings(made)
    return {key: asked[key] for key in asked if passthrough().knows(key) and not is_only_how(key)}


def _choices(made: Mapping[str, Any]) -> dict[str, str]:
    """Options, variables and CMake's arguments that change what is built.

    Of a path only that there is one, and its last name where it is a compiler that was asked for.
    """
    asked = recorded_settings(made)
    found = {
        key: value
        for key, value in asked.items()
        if key == "cmake-args" or (key.startswith("env.") and matters(key.removeprefix("env.")))
    }
    requested = made.get("options", {}).get("requested", {})
    found |= {name: value for name, value in requested.items() if matters(name) and not is_launcher(name)}
    compilers = {f"{key} is": re.split(r"[\\/]", asked[key])[-1] for key in asked if _COMPILER.fullmatch(key)}
    return compilers | {name: "" if _PATH.match(value) else value for name, value in found.items()}


def _not_fetched(arguments: tuple[str, ...], log: Path) -> Problem:
    return Problem(
        id="wheel-not-fetched",
        what=f"pip could not download {arguments[0]}",
        remedy=f"look into {log}; or build it: torchwheel build",
        origin=" ".join(arguments[1:]),
    )
