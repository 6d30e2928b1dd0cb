"""A build in a folder of torchwheel's cache, of a tree or of extensions: locked, followed, and run with its cache."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from torchwheel.engine.cache import record_use, remove_orphans
from torchwheel.engine.cache_session import CompilerCache
from torchwheel.engine.memory import with_fewer_jobs
from torchwheel.engine.record import BuildInputs, invalidate_unseen_changes
from torchwheel.host.this import make_private
from torchwheel.progress.build_record import RECORD, Build
from torchwheel.progress.follow import Follower, follow_build
from torchwheel.reporting.errors import refusal
from torchwheel.reporting.terminal import say
from torchwheel.system.locks import file_lock, folder_lock

T = TypeVar("T")


def require_writable(folder: Path) -> None:
    """Check before the build, which may take hours, that its result can be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        reason = "" if os.access(folder, os.W_OK) else "you have no write permission there"
    except OSError as failure:
        reason = failure.strerror or str(failure)
    if reason:
        raise refusal("output-not-writable", folder=folder, reason=reason)


@contextmanager
def held_folder(
    folder: Path, source: Path, cache: Path, lock: Path, *, in_place: bool = False
) -> Iterator[None]:
    """Hold the folder of a build of ``source``, and the source itself if built ``in_place``; another build waits."""

    def wait() -> None:
        say(f"waiting for another build of {source} to end")

    # setuptools' own backend, like frontends, also builds each sdist in a folder that it deletes afterwards.
    remove_orphans(cache)
    # Private, because CMake's cache has all options, including secrets.
    make_private(folder)
    with folder_lock(source, lock, wait) if in_place else file_lock(lock, wait):
        folder.mkdir(parents=True, exist_ok=True)
        record_use(folder, source)
        yield


@dataclass(frozen=True)
class Session:
    """A running build; ``more`` are variables with which the compiler cache notices what ninja cannot."""

    follower: Follower
    compiler_cache: CompilerCache
    more: Mapping[str, str]
    jobs: int

    def compiling(self, environment: Mapping[str, str]) -> AbstractContextManager[dict[str, str]]:
        """Run the compiler cache; yields the environment for the compilers."""
        return self.compiler_cache.running({**environment, **self.more})

    def run(self, environment: Mapping[str, str], compile_with: Callable[[Mapping[str, str], int], T]) -> T:
        """Compile in an environment with the compiler cache; with fewer jobs again if the memory runs out."""
        with self.compiling(environment) as whole:
            return with_fewer_jobs(lambda jobs: compile_with(whole, jobs), self.jobs)


@contextmanager
def build_session(
    build: Build, inputs: BuildInputs, cache: Path, compiler_cache: CompilerCache
) -> Iterator[Session]:
    """Follow a build in a held folder, whose outputs with changed inputs are invalidated first."""
    record = Path(build.log).with_name(RECORD)
    with (
        invalidate_unseen_changes(inputs) as more,
        follow_build(build, record, cache, inputs.environment) as follower,
    ):
        yield Session(follower, compiler_cache, more, build.jobs)
