"""Carrying out the plan of extensions: writing the build folder, running the compilers, and telling what failed."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from torchwheel.engine.replacing import replace_text
from torchwheel.errors import Problem, TorchwheelError
from torchwheel.extension.model import ExtensionPlan
from torchwheel.extension.ninja_file import ninja_text
from torchwheel.findings import stop_on_errors

_NINJA_FILE = "build.ninja"
_LOG = "build.log"


def build_extensions(plan: ExtensionPlan, environment: Mapping[str, str]) -> dict[str, Path]:
    """Build all extensions of a plan; what is up to date is left alone.

    Returns:
        The modules: path below the wheel's root -> the file in the build folder.

    Raises:
        TorchwheelError: the plan has errors, or a command failed.
    """
    stop_on_errors(plan.findings, plan.settings.skip_check)
    with _locked(plan.folder):
        _write(plan)
        _run(plan, environment)
    return {extension.file_name: plan.folder / extension.output for extension in plan.extensions}


def find_ninja(environment: Mapping[str, str]) -> str | None:
    """The ninja to run: PyPI's package in this environment, else the first on PATH; None if there is none."""
    beside = shutil.which("ninja", path=str(Path(sys.executable).parent))
    return beside or shutil.which("ninja", path=environment.get("PATH"))


def _write(plan: ExtensionPlan) -> None:
    """Everything that the commands need; files whose content is right keep their times."""
    for name, folder in plan.links.items():
        _link(plan.folder / name, folder)
    texts = {_NINJA_FILE: ninja_text(plan), **plan.generated}
    for path, text in texts.items():
        file = plan.folder / path
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            replace_text(file, text)


def _link(link: Path, folder: Path) -> None:
    if link.is_symlink():
        if os.readlink(link) == str(folder):
            return
        link.unlink()
    link.symlink_to(folder, target_is_directory=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    from filelock import FileLock

    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "lock"):
        yield


def _run(plan: ExtensionPlan, environment: Mapping[str, str]) -> None:
    log = plan.folder / _LOG
    log.unlink(missing_ok=True)
    ninja = find_ninja(environment)
    whole = _environment(environment)
    if ninja is None:
        from torchwheel.extension.without_ninja import run_steps

        succeeded = run_steps(plan, whole, log)
    else:
        succeeded = _run_ninja([ninja, f"-j{plan.jobs.max_jobs}"], plan.folder, whole, log)
    if not succeeded:
        raise TorchwheelError(_failed(plan, log))


def _run_ninja(command: list[str], folder: Path, environment: Mapping[str, str], log: Path) -> bool:
    from torchwheel.engine.process import ProcessFailed, run_streaming

    try:
        run_streaming(command, folder=folder, environment=environment, log=log)
    except ProcessFailed:
        return False
    return True


def _environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What lets a compiler cache answer wherever the build folder lies, and however new the headers are.

    Source: https://ccache.dev/manual/latest.html (hash_dir; sloppiness: include_file_mtime, include_file_ctime)
    """
    ours = {"CCACHE_NOHASHDIR": "1", "CCACHE_SLOPPINESS": "include_file_mtime,include_file_ctime"}
    return {**ours, **environment, "NINJA_STATUS": "[%f/%t] "}


def _failed(plan: ExtensionPlan, log: Path) -> Problem:
    from torchwheel.engine.failure import explained_failure, full_disk, is_full

    what = "the extensions could not be compiled"
    if is_full(plan.folder):
        return full_disk(plan.folder, log, f"{what}: the disk is full")
    return explained_failure("extension-build-failed", what, log, str(plan.project))
