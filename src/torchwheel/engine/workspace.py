"""The folders of one build: locked, filled with the source, and ready for the tree's own backend."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from torchwheel._files import atomic_write, file_lock
from torchwheel.engine.configure_watch import drop_stale_cache
from torchwheel.engine.inner_backend import InnerBackend, inner_environment
from torchwheel.engine.installation import ensure_environment
from torchwheel.engine.process import LineWatcher
from torchwheel.engine.staging import bring_up_to_date
from torchwheel.engine.venv import FRONTEND_VARIABLES, scripts_folder
from torchwheel.plan.environment import INCLUDE_BEFORE
from torchwheel.plan.forwarding import cmake_file
from torchwheel.plan.model import BuildFolders, Plan
from torchwheel.settings.pytorch_env import is_build_variable
from torchwheel.tree.git import git_folders
from torchwheel.tree.model import Generation

LAST_BUILD = "last-build.txt"
"""Names the log of the latest build in torchwheel's cache folder."""


_HOOK_VARIABLES = frozenset(
    {"_PYPROJECT_HOOKS_BUILD_BACKEND", "_PYPROJECT_HOOKS_BACKEND_PATH", "_PYPROJECT_HOOKS_BACKEND_PATH_JSON"}
)
"""What a frontend tells the process of a hook: about torchwheel, not about the tree's own backend."""


@dataclass(frozen=True)
class Workspace:
    """A plan together with the environment that it is carried out in."""

    plan: Plan
    environment: Mapping[str, str]

    def backend(self, folder: Path, watch: LineWatcher | None = None) -> InnerBackend:
        """The tree's own backend.

        Args:
            folder: where its hooks run: the stage, or the user's tree for hooks that write nothing.
            watch: sees its output.
        """
        tree = self.plan.tree
        return InnerBackend(
            source=folder,
            build_backend=tree.backend,
            backend_path=tree.backend_path,
            python=self.plan.python_executable,
            environment=self.environment,
            log=self.plan.folders.log,
            watch=watch,
        )


def workspace(plan: Plan, outer: Mapping[str, str]) -> Workspace:
    """The workspace of a plan, with the build requirements that the tree's pyproject.toml names installed.

    Raises:
        TorchwheelError: a build requirement cannot be installed.
    """

    managed = plan.folders.environment is not None
    foreign = _HOOK_VARIABLES | (FRONTEND_VARIABLES if managed else frozenset())
    owned = frozenset(name for name in outer if name in foreign or is_build_variable(name))
    planned = {v.name: v.value for v in plan.variables if not v.prepend}
    prepended: dict[str, list[str]] = {}
    for variable in plan.variables:
        if variable.prepend:
            prepended.setdefault(variable.name, []).append(variable.value)
    if plan.folders.environment is not None:
        prepended.setdefault("PATH", []).append(str(scripts_folder(plan.python_executable)))
        ensure_environment(plan.folders.environment, plan.build_requires, outer, plan.folders.log)
    return Workspace(plan, inner_environment(outer, owned, planned, prepended))


def install_requirements(space: Workspace, hook: str) -> None:
    """Install what the tree's own backend asks for in one of its ``get_requires`` hooks.

    Raises:
        ProcessFailed: the hook failed.
        TorchwheelError: a requirement cannot be installed.
    """
    plan = space.plan
    if plan.folders.environment is None:
        return
    more = space.backend(plan.folders.source).call(hook, plan.inner_config_settings)
    ensure_environment(plan.folders.environment, tuple(more), space.environment, plan.folders.log)


@contextmanager
def locked_folders(plan: Plan, cache: Path) -> Iterator[None]:
    """Hold the build's folders, bring the stage up to date, and start a new log.

    Two builds of one fingerprint, or two in the same tree, would write into the same folder: the second waits.

    Raises:
        OSError: a folder cannot be made or a file cannot be copied.
    """
    # A question to the tree's own backend needs neither of them.

    folders = plan.folders
    folders.root.mkdir(parents=True, exist_ok=True)
    lock = folders.root / "lock" if folders.staged else cache / f"tree-{plan.tree.identity}.lock"
    with _held(lock, folders):
        folders.log.write_bytes(b"")
        (cache / LAST_BUILD).write_text(str(folders.log), encoding="utf-8")
        if folders.staged:
            bring_up_to_date(plan.tree.root, folders.source, folders.root / "stage.json")
            share_git(plan.tree.root, folders.source)
        _write_defines(plan)
        drop_stale_cache(plan)
        yield


def _held(path: Path, folders: BuildFolders) -> AbstractContextManager[None]:
    def say() -> None:
        print(f"torchwheel: waiting for another build in {folders.source} to end", flush=True)

    return file_lock(path, say)


def share_git(tree: Path, stage: Path) -> None:
    """Let the build in the stage ask git for the commit; ``.git`` itself is not copied."""
    link = stage / ".git"
    folders = git_folders(tree)
    if folders is None:
        link.unlink(missing_ok=True)
    else:
        # Absolute: a worktree's or submodule's own .git is a file with a path from there.
        link.write_text(f"gitdir: {folders.own.resolve()}\n", encoding="utf-8")


def _write_defines(plan: Plan) -> None:
    if plan.tree.generation is not Generation.SETUP_PY or not plan.file_defines:
        return
    values = {d.name: d.value for d in plan.defines if d.name in plan.file_defines}
    theirs = next((d.value for d in plan.defines if d.name == INCLUDE_BEFORE), None)
    atomic_write(plan.folders.defines_file, cmake_file(values, theirs))
