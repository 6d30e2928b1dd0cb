"""The tree's own build backend: call its hooks in a subprocess, and the hooks that do not build."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pyproject_hooks import BackendUnavailable, BuildBackendHookCaller

from torchwheel.engine.process import (
    Follow,
    LineWatcher,
    ProcessFailed,
    in_checkout,
    inner_failure,
    run_streaming,
)
from torchwheel.engine.staging import locked_folders
from torchwheel.engine.venv import Installing, ensure_environment, ensure_overlay, lost_environment
from torchwheel.host.installer import FRONTEND_VARIABLES
from torchwheel.host.programs import has_program_version
from torchwheel.host.this import scripts_folder, temporary_variables
from torchwheel.plan.build_plan import Plan
from torchwheel.plan.make import make_plan
from torchwheel.reporting.errors import TorchwheelError, refusal, stop_on_errors
from torchwheel.settings.pytorch_env import pytorch_variables
from torchwheel.survey import BuildRequest, survey
from torchwheel.tree.git import REPOSITORY_VARIABLES
from torchwheel.tree.source_tree import Generation, Tree, backend_settings, read_pyproject
from torchwheel.versions import requirements_met

# A frontend's variables for the hook's process are about torchwheel, not about the tree's own backend.
_HOOK_VARIABLES = frozenset(
    {"_PYPROJECT_HOOKS_BUILD_BACKEND", "_PYPROJECT_HOOKS_BACKEND_PATH", "_PYPROJECT_HOOKS_BACKEND_PATH_JSON"}
)


@dataclass(frozen=True)
class TreeBackend:
    """The tree's own backend, ready to be called in ``folder``: in the user's tree only if nothing is written there."""

    plan: Plan
    environment: Mapping[str, str]
    folder: Path

    def call(
        self, hook: str, *arguments: Any, watch: LineWatcher | None = None, follow: Follow | None = None
    ) -> Any:
        """Call one hook and return what it returned; TorchwheelError tells the cause of a failure, from the log."""
        plan, log = self.plan, self.plan.folders.log
        stream = partial(run_streaming, log=log, watch=watch, show=in_checkout(plan), follow=follow)
        planned = {variable.name for variable in plan.variables}
        try:
            with temporary_variables(plan.folders.temporary, planned) as own:
                return call_hook(
                    (plan.tree.backend, *plan.tree.backend_path),
                    hook,
                    arguments,
                    stream,
                    folder=self.folder,
                    environment={**self.environment, **own},
                    python=plan.python_executable,
                )
        except ProcessFailed as failure:
            kept = plan.folders.environment
            lost = lost_environment(kept, log) if kept else None
            raise TorchwheelError(lost or inner_failure(plan, failure)) from failure

    def build(
        self,
        kind: str,
        folder: Path,
        environment: Mapping[str, str],
        watch: LineWatcher,
        prepared: Path | None = None,
        follow: Follow | None = None,
    ) -> str:
        """Build a ``kind`` into ``folder``, in this environment; returns its file name."""
        arguments = str(folder), self.plan.inner_config_settings, str(prepared) if prepared else None
        backend = replace(self, environment=environment)
        return str(backend.call(f"build_{kind}", *arguments, watch=watch, follow=follow))

    def with_requirements(self, kind: str) -> TreeBackend:
        """Install the backend's requirements to build a ``kind``, if torchwheel manages the environment."""
        if (kept := self.plan.folders.environment) is None:
            return self
        more = self.call(f"get_requires_for_build_{kind}", self.plan.inner_config_settings)
        installing = Installing(self.plan.tree.root, self.environment)
        overlay = ensure_overlay(kept, tuple(more), self.plan.folders.log, installing)
        return replace(self, environment=_in_front(overlay.items(), self.environment))


def call_hook(
    backend: Sequence[str],
    hook: str,
    arguments: Sequence[Any],
    stream: Callable[..., None],
    *,
    folder: Path,
    environment: Mapping[str, str],
    python: str = sys.executable,
) -> Any:
    """Call one hook of a build backend in a subprocess and return what it returned.

    Args:
        backend: its object path, then the folders of the tree to import it from, if it is not installed.
        stream: runs the command: :func:`torchwheel.engine.process.run_streaming`, with the destination of the output.

    Raises:
        ProcessFailed: the hook failed.
        TorchwheelError: the backend cannot be imported.
        pyproject_hooks.HookMissing: the backend has no such hook.
    """
    outer = {name: value for name, value in environment.items() if name not in _HOOK_VARIABLES}

    def run(
        cmd: Sequence[str], cwd: str | None = None, extra_environ: Mapping[str, str] | None = None
    ) -> None:
        stream(cmd, folder=Path(cwd or folder), environment={**outer, **(extra_environ or {})})

    module, *path = backend
    caller = BuildBackendHookCaller(
        str(folder), module, backend_path=path or None, runner=run, python_executable=python
    )
    try:
        return getattr(caller, hook)(*arguments)
    except BackendUnavailable as error:
        *_, last = (error.traceback or str(error)).strip().splitlines() or [""]
        raise refusal("backend-not-importable", python=python, backend=module, reason=last) from error


def tree_backend(plan: Plan, outer: Mapping[str, str], folder: Path | None = None) -> TreeBackend:
    """Return the backend of a plan's tree, with the build requirements of its pyproject.toml installed."""
    if (kept := plan.folders.environment) is not None:
        ensure_environment(kept, plan.build_requires, plan.folders.log, Installing(plan.tree.root, outer))
    return TreeBackend(plan, inner_environment(plan, outer), folder or plan.folders.source)


def inner_environment(plan: Plan, outer: Mapping[str, str]) -> dict[str, str]:
    """Return the inner build's environment: the outer one without variables read as settings, plus the plan's."""
    reads, managed = pytorch_variables().can_change_build, plan.folders.environment is not None
    # In a git hook, the repository's variables would bind the build's git to the hook's repository.
    dropped = REPOSITORY_VARIABLES | (FRONTEND_VARIABLES if managed else frozenset())
    result = {name: value for name, value in outer.items() if not (name in dropped or reads(name))}
    result.update({one.name: one.value for one in plan.variables if not one.prepend})
    front = [(one.name, one.value) for one in plan.variables if one.prepend]
    if managed:
        front.append(("PATH", str(scripts_folder(plan.python_executable))))
    result = _in_front(front, result)
    # The user's tree may be read-only, and hooks that do not build must not write to it.
    result["PYTHONDONTWRITEBYTECODE"] = "1"
    # Python writes to a pipe in blocks, so its lines would appear late.
    result["PYTHONUNBUFFERED"] = "1"
    # git status would refresh the index of the user's own repository, which the stage shares.
    result["GIT_OPTIONAL_LOCKS"] = "0"
    return result


def _in_front(folders: Iterable[tuple[str, str]], environment: Mapping[str, str]) -> dict[str, str]:
    """Put folders in front of search paths, given by the names of their variables."""
    result = dict(environment)
    for name, folder in reversed(list(folders)):
        result[name] = os.pathsep.join(filter(None, (folder, result.get(name))))
    return result


def checked_plan(request: BuildRequest) -> Plan:
    plan = make_plan(survey(request))
    stop_on_errors(plan.findings, plan.settings.skip_check)
    return plan


def required_packages(request: BuildRequest, kind: str) -> list[str]:
    """Return the requirements that the frontend must install to build a ``kind``, ``wheel`` or ``editable``.

    None if torchwheel manages the environment; else those of the tree's own backend. A backend that is not installed
    yet cannot be called, and then CMake and ninja are required unless those on ``PATH`` are suitable.
    """
    plan = checked_plan(request)
    if plan.folders.environment is not None:
        return []
    missing = plan.toolkit_requires if plan.toolkit_packages is None else ()
    requires = [*plan.build_requires, *missing]
    if not requirements_met(requires):
        minimum = plan.tree.minimum_cmake
        programs = {"cmake": f">={minimum}" if minimum else "", "ninja": ""}
        return requires + [
            name + needed
            for name, needed in programs.items()
            if not has_program_version(name, needed, request.environment)
        ]
    with _hook_folder(plan, request.environment) as folder:
        backend = tree_backend(plan, request.environment, folder)
        return [*requires, *backend.call(f"get_requires_for_build_{kind}", plan.inner_config_settings)]


def prepare_metadata(request: BuildRequest, metadata_directory: Path, *, kind: str) -> str:
    """Prepare metadata with the tree's own backend, without a build or a CUDA toolkit; returns its folder's name."""
    plan = checked_plan(request)
    with _hook_folder(plan, request.environment) as folder:
        backend = tree_backend(plan, request.environment, folder).with_requirements(kind)
        hook = f"prepare_metadata_for_build_{kind}"
        # False: without a fallback, which would build a whole wheel for its metadata.
        return str(backend.call(hook, str(metadata_directory), plan.inner_config_settings, False))


@contextmanager
def _hook_folder(plan: Plan, environment: Mapping[str, str]) -> Iterator[Path]:
    """Yield the user's tree if these hooks only read it, else the build's source folder."""
    if _hooks_write(plan.tree):
        with locked_folders(plan, environment):
            yield plan.folders.source
    else:
        plan.folders.root.mkdir(parents=True, exist_ok=True)
        yield plan.tree.root


def _hooks_write(tree: Tree) -> bool:
    """Whether a hook that does not build writes into the tree: egg-info, or files that scikit-build-core generates."""
    if tree.generation is Generation.SETUP_PY:
        return True
    generated = backend_settings(read_pyproject(tree.root)).get("generate", [])
    return any(entry.get("location") == "source" for entry in generated)
