"""Calling the backend inside, scikit-build-core or setuptools, in a subprocess; and what it needs installed."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from torchwheel.engine.failure import explained_failure
from torchwheel.engine.hooks import call_hook
from torchwheel.engine.memory import with_fewer_jobs
from torchwheel.engine.process import Follow, LineWatcher, ProcessFailed, run_streaming
from torchwheel.errors import Problem, TorchwheelError, refusal, stop_on
from torchwheel.extension.handover import Handover
from torchwheel.extension.project import HookRequest

_JOBS = "CMAKE_BUILD_PARALLEL_LEVEL"


def call_inner(
    request: HookRequest,
    hook: str,
    *arguments: Any,
    handover: Handover | None = None,
    variables: Mapping[str, str] | None = None,
    log: Path | None = None,
    watch: LineWatcher | None = None,
    follow: Follow | None = None,
) -> Any:
    """Call one hook of the inner backend; returns what it returned. The user's own environment variables win.

    Args:
        handover: what the torchwheel in there learns; None to tell it the settings alone.
        log: a file that gets all output; None for one that is kept only if the hook fails.
        watch: sees its output, line by line.
        follow: what goes on while it runs.

    Raises:
        TorchwheelError: the backend is not installed or failed; what torchwheel's own code in there says stands for
            the failure that it caused.
    """
    needed = request.kind.requirement
    if not request.kind.is_installed:
        raise refusal(
            id="inner-backend-missing",
            what=f"{needed.partition('>')[0]}, which builds the package around the extensions, is not installed",
            remedy=f'pip install "{needed}", or build with isolation, which installs it',
        )
    user = request.project.environment
    ours = {name: value for name, value in (variables or {}).items() if not user.get(name)}
    with _log(log) as file, tempfile.TemporaryDirectory(prefix="torchwheel-") as unread:
        hook_handover = handover or Handover(request.project.folder, request.own, Path(unread))
        environment = {**user, **ours, **hook_handover.variables(), "PYTHONUNBUFFERED": "1"}
        folder = request.project.folder
        settings = request.project.settings

        def call(jobs: int | None) -> Any:
            try:
                return call_hook(
                    (request.kind.hooks,),
                    hook,
                    arguments,
                    partial(
                        run_streaming,
                        log=file,
                        watch=watch,
                        stall_warning=settings.stall_warning,
                        follow=follow,
                    ),
                    folder=folder,
                    environment=environment if jobs is None else {**environment, _JOBS: str(jobs)},
                )
            except ProcessFailed as failure:
                what = f"{needed.partition('>')[0]} ended with status {failure.code}"
                problem = explained_failure("inner-build-failed", what, file, str(folder), failure.start)
                raise TorchwheelError(hook_handover.problems() or problem) from failure

        # What the user's own environment says is not lowered.
        return (
            with_fewer_jobs(call, int(ours[_JOBS]), retry=settings.retry_on_oom)
            if _JOBS in ours
            else call(None)
        )


@contextmanager
def _log(log: Path | None) -> Iterator[Path]:
    if log is not None:
        yield log
        return
    with tempfile.NamedTemporaryFile(prefix="torchwheel-", suffix=".log", delete=False) as stream:
        file = Path(stream.name)
    yield file
    file.unlink()


def require_tools(environment: Mapping[str, str]) -> None:
    """See that CMake and ninja are there, before scikit-build-core looks for them.

    Raises:
        TorchwheelError: one is missing; both are in it if both are.
    """
    problems = [
        Problem(
            id=f"no-{name}",
            what=f"there is no {name}, which {purpose}",
            remedy=f"pip install {name}, or build with isolation, which installs it",
            why="it is neither installed in this environment nor on PATH",
        )
        for name, purpose in (("cmake", "configures the build"), ("ninja", "runs the compilers"))
        # scikit-build-core looks for a ninja of its own even where CMAKE_MAKE_PROGRAM names one.
        if not (name == "cmake" and environment.get("CMAKE_EXECUTABLE"))
        and not _is_package(name)
        and shutil.which(name, path=environment.get("PATH")) is None
    ]
    stop_on(problems)


def _is_package(name: str) -> bool:
    """Whether PyPI's package of a program is installed."""
    spec = find_spec(name)
    return spec is not None and spec.origin is not None
