"""The wheel that a build's folder made last: kept there, and handed over again while nothing has changed.

setup.py packs everything anew in each build, which takes PyTorch with CUDA a minute. All that a wheel is made of is
compared, and nothing of what was made. Only a setup.py tree that is built in a copy has that: scikit-build-core
configures in each build, and may find what was installed meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import distributions
from pathlib import Path

from torchwheel._files import (
    atomic_copy,
    atomic_write,
    cannot_write,
    file_sha256,
    folder_beside,
    hand_over,
    read_state,
)
from torchwheel._version import __version__
from torchwheel.engine.configuring import STATE as CONFIGURED
from torchwheel.engine.finalize import provenance
from torchwheel.engine.packing import has_packed, packs_the_tree, staged_sources
from torchwheel.engine.staging import environment_digest
from torchwheel.engine.unseen import STATE as MADE_FROM
from torchwheel.errors import TorchwheelError
from torchwheel.plan.fingerprint import digest
from torchwheel.plan.model import Plan
from torchwheel.reproducible import source_date
from torchwheel.terminal import say

_STATE = "finished.json"


def keeps_finished(plan: Plan) -> bool:
    """Whether a plan's finished wheel is kept in its folder."""
    return plan.folders.staged and packs_the_tree(plan)


def finished_folder(plan: Plan) -> Path:
    """Where a plan's finished wheel is kept."""
    return plan.folders.root / "finished"


def wheel_inputs(
    plan: Plan, new: Sequence[str], prepared: bytes | None, environment: Mapping[str, str]
) -> str | None:
    """What stands for all that the wheel of a plan is made of, before a build or after it, in its locked folders.

    Of what CMake has read and of the files outside of the stage that something is compiled of there are records with
    their contents, which are up to date then; so are the stage and what CMake is asked for.

    Args:
        new: the source files that are in no commit.
        prepared: the METADATA that a prepare hook has returned.
        environment: the one that torchwheel was started in.

    Returns:
        None where it is not known, or the last build was not brought to its end.
    """
    folders = plan.folders
    if not (keeps_finished(plan) and has_packed(plan) and folders.cmake_cache.is_file()):
        return None
    records = (folders.root / CONFIGURED, folders.build / MADE_FROM, folders.build / "build.ninja")
    try:
        contents = [file_sha256(record).hex() for record in records]
    except OSError:
        return None
    return digest(
        {
            "torchwheel": __version__,
            "name": plan.wheel_name,
            # Findings tell of this machine at one time.
            "manifest": {**provenance(plan, new), "findings": []},
            "date": str(source_date(environment)),
            "metadata": (prepared or b"").decode("utf-8", "surrogateescape"),
            "environment": environment_digest(plan, environment),
            "asked": dict(plan.inner_config_settings),
            "packages": _packages() if folders.environment is None else [],
            "sources": staged_sources(plan),
            "records": contents,
        }
    )


def _packages() -> list[str]:
    """What is installed beside this process, where the tree's own backend runs there."""
    return sorted({f"{one.metadata['Name']} {one.version}" for one in distributions()})


def give_again(plan: Plan, folder: Path, inputs: str | None) -> Path | None:
    """Hand over the wheel that was built last, if a build would make the same; else forget it, since one begins.

    Args:
        folder: gets the wheel.
        inputs: what it would be made of.

    Raises:
        TorchwheelError: it cannot be written.
    """
    record, kept = plan.folders.root / _STATE, finished_folder(plan) / plan.wheel_name
    state = read_state(record)
    if inputs is not None and state.get("inputs") == inputs:
        with suppress(FileNotFoundError):
            if file_sha256(kept).hex() == state.get("sha256"):
                say(f"nothing has changed since {kept.name} was built and proved: it is handed over again")
                return _given(kept, folder)
    record.unlink(missing_ok=True)
    return None


def give(plan: Plan, wheel: Path, folder: Path, inputs: str | None) -> Path:
    """Hand over a wheel that was built, and remember what it is made of.

    Args:
        wheel: lies in :func:`finished_folder`.
        folder: gets the wheel.

    Raises:
        TorchwheelError: it cannot be written there. The next run can, without a build.
    """
    # A build does not fail for want of what saves the next one time.
    with suppress(OSError):
        if inputs is not None:
            state = {"inputs": inputs, "sha256": file_sha256(wheel).hex()}
            atomic_write(plan.folders.root / _STATE, json.dumps(state))
    return _given(wheel, folder)


def _given(wheel: Path, folder: Path) -> Path:
    target = folder / wheel.name
    try:
        with folder_beside(target) as beside:
            copy = beside / wheel.name
            atomic_copy(wheel, copy)
            hand_over(copy, target)
    except OSError as error:
        raise TorchwheelError(cannot_write(target, error)) from error
    return target
