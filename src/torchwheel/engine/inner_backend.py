"""Calling the hooks of the tree's own build backend, in a subprocess with the tree as its folder."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyproject_hooks import BuildBackendHookCaller

from torchwheel.engine.process import LineWatcher, run_streaming


@dataclass(frozen=True)
class InnerBackend:
    """The tree's own backend, ready to be called.

    Attributes:
        source: the folder that its hooks run in.
        build_backend: the backend's object path, e.g. ``scikit_build_core.build``.
        backend_path: in-tree folders that it is imported from.
        python: the interpreter it runs in.
        environment: its whole environment.
        log: a file that gets all its output.
        watch: sees each line of output as it comes.
    """

    source: Path
    build_backend: str
    backend_path: tuple[str, ...]
    python: str
    environment: Mapping[str, str]
    log: Path
    watch: LineWatcher | None = None

    def call(self, hook: str, *arguments: Any) -> Any:
        """Call one hook and return what it returned.

        Raises:
            ProcessFailed: the hook failed; its output is in the log.
            pyproject_hooks.HookMissing: the backend has no such hook.
        """

        caller = BuildBackendHookCaller(
            str(self.source),
            self.build_backend,
            backend_path=list(self.backend_path) or None,
            runner=self._run,
            python_executable=self.python,
        )
        return getattr(caller, hook)(*arguments)

    def _run(
        self,
        cmd: Sequence[str],
        cwd: str | None = None,
        extra_environ: Mapping[str, str] | None = None,
    ) -> None:
        run_streaming(
            cmd,
            folder=Path(cwd or self.source),
            environment={**self.environment, **(extra_environ or {})},
            log=self.log,
            watch=self.watch,
        )


def inner_environment(
    outer: Mapping[str, str],
    owned: frozenset[str],
    planned: Mapping[str, str],
    prepended: Mapping[str, list[str]],
) -> dict[str, str]:
    """The inner build's environment: the outer one less what the plan resolved, plus what it decided.

    Args:
        outer: the environment torchwheel was started in.
        owned: names in it that were read as settings; only resolved values reach the inner build.
        planned: variables that the plan sets.
        prepended: folders that go in front of a search path.
    """
    result = {name: value for name, value in outer.items() if name not in owned}
    result.update(planned)
    for name, folders in prepended.items():
        inherited = [result[name]] if result.get(name) else []
        result[name] = os.pathsep.join([*folders, *inherited])
    # The user's tree may be read-only, and must not be written to where it is only asked questions.
    result["PYTHONDONTWRITEBYTECODE"] = "1"
    result["PYTHONUNBUFFERED"] = "1"
    result["GIT_OPTIONAL_LOCKS"] = "0"
    return result
