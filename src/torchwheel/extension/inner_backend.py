"""Call the inner backend, scikit-build-core or setuptools, in a subprocess, and determine its requirements."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from torchwheel.engine.hooks import call_hook
from torchwheel.engine.process import Follow, LineWatcher, ProcessFailed, explained_failure, run_streaming
from torchwheel.engine.session import with_fewer_jobs
from torchwheel.extension.extension_project import CMAKE, HookRequest, ProjectKind, read_hook_request
from torchwheel.extension.handover import Handover
from torchwheel.extension.wheel_record import is_labelled
from torchwheel.host.compilers import join_words, program_words
from torchwheel.host.programs import has_program_version
from torchwheel.host.this import temporary_variables
from torchwheel.reporting.errors import TorchwheelError, stop_on
from torchwheel.survey import BuildRequest
from torchwheel.versions import malformed_requirements

_SDIST_HOOK = "get_requires_for_build_sdist"
_JOBS = "CMAKE_BUILD_PARALLEL_LEVEL"


def call_inner(
    request: HookRequest,
    hook: str,
    *arguments: Any,
    handover: Handover | None = None,
    variables: Mapping[str, str] | None = None,
    temporary: Path | None = None,
    log: Path | None = None,
    watch: LineWatcher | None = None,
    follow: Follow | None = None,
) -> Any:
    """Call one hook of the inner backend; returns what it returned. The user's own environment variables win.

    Args:
        handover: data for the torchwheel in the subprocess; None for only the settings.
        temporary: the folder of its temporary files; the user's own if None.
        log: a file for all output; None for one that is kept only if the hook fails.
    """
    user = request.project.environment
    # PATH is the user's own, preceded by the script that replaces a missing compiler cache.
    ours = {name: value for name, value in (variables or {}).items() if name == "PATH" or not user.get(name)}
    own: AbstractContextManager[dict[str, str]] = nullcontext({})
    if temporary is not None:
        own = temporary_variables(temporary, request.project.settings.env)
    unread_folder = tempfile.TemporaryDirectory(prefix="torchwheel-")
    with _log_file(log) as file, unread_folder as unread, own as folders:
        hook_handover = handover or Handover(request.project.folder, request.own, Path(unread))
        # Into a pipe Python would write only whole buffers, so its lines would come after those of the compilers.
        environment = {**user, **_compiler_commands(request), **ours, **folders, **hook_handover.variables()}
        environment["PYTHONUNBUFFERED"] = "1"
        run, folder = partial(run_streaming, log=file, watch=watch, follow=follow), request.project.folder

        def call(jobs: int | None) -> Any:
            whole = environment if jobs is None else {**environment, _JOBS: str(jobs)}
            try:
                made = call_hook(
                    (request.kind.hooks,), hook, arguments, run, folder=folder, environment=whole
                )
            except ProcessFailed as failure:
                what = f"{request.kind.requirement.partition('>')[0]} ended with status {failure.code}"
                problem = explained_failure("inner-build-failed", what, file, str(folder), failure.start)
                raise TorchwheelError(hook_handover.problems() or problem) from failure
            # scikit-build-core may have an override for failures, which omits the refused setting.
            stop_on(hook_handover.problems())
            return made

        # The number of jobs in the user's own environment is not lowered.
        return with_fewer_jobs(call, int(ours[_JOBS])) if _JOBS in ours else call(None)


def _compiler_commands(request: HookRequest) -> dict[str, str]:
    """Spell the user's compilers as setuptools reads them: it splits a path with a blank, which CMake takes whole."""
    if request.kind is ProjectKind.CMAKE:
        return {}
    user, system = request.project.environment, request.project.host.system
    named = {name: user[name] for name in ("CC", "CXX") if user.get(name)}
    return {
        name: join_words(program_words(text, user.get("PATH"), system), windows=system == "Windows")
        for name, text in named.items()
    }


@contextmanager
def _log_file(log: Path | None) -> Iterator[Path]:
    if log is not None:
        yield log
        return
    with tempfile.NamedTemporaryFile(prefix="torchwheel-", suffix=".log", delete=False) as stream:
        file = Path(stream.name)
    yield file
    # Not in a `finally`, because the message of a failure names this log.
    file.unlink()


def required_packages(request: BuildRequest, hook: str) -> list[str]:
    """Return the result of ``get_requires_for_build_*``.

    The CUDA toolkit is not among it: NVIDIA's packages beside PyTorch may be of another release than a toolkit's, so
    the build installs those in torchwheel's cache.
    """
    hook_request = read_hook_request(request)
    if hook != _SDIST_HOOK:
        # Only to report a missing one before anything is installed.
        _ = hook_request.project.torch
    names = list(_inner_requirements(hook_request, hook))
    if hook != _SDIST_HOOK and not ProjectKind.SETUP_PY.is_installed:
        # PyTorch's own commands are setuptools'.
        names.append(ProjectKind.SETUP_PY.requirement)
    if hook != _SDIST_HOOK or _runs_cmake(hook_request, hook):
        named = any(name.startswith("ninja") for name in names)
        # The ninja that scikit-build-core accepts and that build.ninja is written for.
        if not named and not has_program_version("ninja", ">=1.5", hook_request.project.environment):
            names.append("ninja>=1.11")
    return list(dict.fromkeys(names))


def _inner_requirements(hook_request: HookRequest, hook: str) -> Iterator[str]:
    """The inner backend, and its own requirements if it is installed."""
    if hook_request.kind.is_installed:
        answer = [str(one) for one in call_inner(hook_request, hook, dict(hook_request.inner))]
        # A setup.py and [tool.scikit-build] may return any text, and frontends pass it to pip.
        if problems := malformed_requirements(answer, f"{hook} of {hook_request.kind.backend}"):
            raise TorchwheelError(problems)
        yield from answer
        return
    yield hook_request.kind.requirement
    environment = hook_request.project.environment
    if _runs_cmake(hook_request, hook) and not environment.get("CMAKE_EXECUTABLE"):
        needed = CMAKE.removeprefix("cmake")
        if not any(has_program_version(name, needed, environment) for name in ("cmake", "cmake3")):
            yield CMAKE


def _runs_cmake(hook_request: HookRequest, hook: str) -> bool:
    is_run = hook != _SDIST_HOOK or is_labelled(hook_request.project.settings)
    return is_run and hook_request.kind is ProjectKind.CMAKE
