"""Wheels that were built before: found in folders and indexes by their build manifest, and kept there for others."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from torchwheel._files import atomic_copy
from torchwheel.engine.process import ProcessFailed, run_streaming
from torchwheel.engine.provenance import expected_wheel
from torchwheel.errors import Problem, TorchwheelError
from torchwheel.plan.fingerprint import matters
from torchwheel.plan.model import Plan
from torchwheel.plan.output import decisions, is_launcher
from torchwheel.terminal import say
from torchwheel.wheel.archive import open_wheel
from torchwheel.wheel.contents import inspect_wheel
from torchwheel.wheel.manifest import read_manifest
from torchwheel.wheel.record import altered
from torchwheel.wheel.verify import verify_wheel

_BRIEFLY = ("--retries", "1", "--timeout", "15")
"""One more attempt, and so many seconds of silence. Source: pip's help."""

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
        why = difference(plan, wheel) or _unfit(plan, wheel, prepared)
        if why:
            say(f"{wheel} does not serve: {why}")
            continue
        say(f"nothing is built: {wheel} was built for this plan, from this commit")
        atomic_copy(wheel, folder / wheel.name)
        return folder / wheel.name
    return None


def _unfit(plan: Plan, wheel: Path, prepared: bytes | None) -> str:
    try:
        problems = [*verify_wheel(inspect_wheel(wheel), expected_wheel(plan, prepared, editable=False))]
        with open_wheel(wheel) as archive:
            problems += altered(archive)
    except TorchwheelError as error:
        problems = list(error.problems)
    except OSError as error:
        return str(error)
    return problems[0].what if problems else ""


def keep(plan: Plan, wheel: Path) -> None:
    """Copy a wheel that was built into the first folder of the wheel cache that takes it."""
    for place in places(plan):
        if isinstance(place, str):
            continue
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
            yield fetched(plan, options, plan.folders.cache / "wheels", environment, quietly=True)
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
) -> Path:
    """A wheel that pip downloads, without its dependencies.

    Args:
        arguments: what pip takes the wheel by.
        folder: gets the wheel.
        check: raises for a wheel that is not the one; find-links and further indexes of pip's settings have others.
        quietly: whether what pip prints goes to the log alone.

    Raises:
        TorchwheelError: pip failed, or downloaded something else.
        OSError: the folder or the log cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log = _log(plan)
    log.parent.mkdir(parents=True, exist_ok=True)
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "download",
        "--no-deps",
        "--only-binary",
        ":all:",
    ]
    with tempfile.TemporaryDirectory(prefix=".torchwheel-get-", dir=folder) as temporary:
        try:
            run_streaming(
                [*pip, "-d", temporary, *arguments],
                folder=folder,
                environment=environment,
                log=log,
                show=(lambda _line: b"") if quietly else None,
                stall_warning=plan.settings.stall_warning,
            )
        except ProcessFailed as failure:
            raise TorchwheelError(_not_fetched(arguments, failure.log)) from failure
        wheels = list(Path(temporary).glob("*.whl"))
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
    return made_otherwise(plan, manifest["plan"])


def made_otherwise(plan: Plan, made: Mapping[str, Any]) -> str:
    """Why a wheel is not what the plan would build, by its manifest's part of the plan; empty where it is."""
    if not is_of_plan(made, plan):
        return "it was built with other options"
    commit = made.get("source", {}).get("commit")
    if plan.tree.commit is None or commit != plan.tree.commit:
        return (
            "it was built from another commit"
            if commit and plan.tree.commit
            else "no commit says that the source is the same"
        )
    if plan.tree.dirty:
        return "this tree has changes that are not committed"
    return ""


def is_of_plan(made: Mapping[str, Any], plan: Plan) -> bool:
    """Whether the plan's part of a manifest is of this plan, or of one with the same options elsewhere."""
    return made.get("fingerprint") == plan.fingerprint or _choices(made) == _choices(_planned(plan))


def _planned(plan: Plan) -> dict[str, Any]:
    """The part of a manifest that says what was asked for."""
    options = {"requested": {define.name: define.value for define in plan.defines}}
    return {**decisions(plan.settings, ()), "options": options}


def _choices(made: Mapping[str, Any]) -> dict[str, str]:
    """Options, variables and arguments that change what is built, without those that hold a path of a machine."""
    asked = {one["key"]: str(one["value"]) for one in made.get("layers", ())}
    found = {
        name: value
        for key, value in asked.items()
        for kind, _, name in [key.partition(".")]
        if (kind == "env" and matters(name)) or (name and kind not in ("env", "define"))
    }
    requested = made.get("options", {}).get("requested", {})
    found |= {name: value for name, value in requested.items() if not is_launcher(name)}
    return {name: value for name, value in found.items() if "/" not in value and "\\" not in value}


def _not_fetched(arguments: tuple[str, ...], log: Path) -> Problem:
    return Problem(
        id="wheel-not-fetched",
        what=f"pip could not download {arguments[0]}",
        remedy=f"look into {log}; or build it: torchwheel build",
        origin=" ".join(arguments[1:]),
    )
