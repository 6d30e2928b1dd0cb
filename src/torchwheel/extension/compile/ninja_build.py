"""Run the steps of an extension: a ``build.ninja`` for each, compiler caches, and explained failures.

Source: https://ninja-build.org/manual.html (Ninja file reference)
"""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from torchwheel.engine.cache import note_user, record_use, remove_orphans
from torchwheel.engine.cache_session import compiler_cache, write_stand_in
from torchwheel.engine.memory import with_fewer_jobs
from torchwheel.engine.process import (
    Follow,
    ProcessFailed,
    explained_failure,
    full_disk,
    run_streaming,
    with_repetition,
)
from torchwheel.engine.record import BuildInputs, invalidate_unseen_changes
from torchwheel.extension.compile.units import write_links
from torchwheel.extension.extension_plan import ExtensionPlan, ExtensionProject, Step
from torchwheel.host.compiler_cache import (
    CHOICE_FILE,
    KEPT,
    NO_CACHE,
    cache_variables,
    caches_on_path,
    missing_kept_cache,
)
from torchwheel.host.ninja import STATUS, find_ninja, outputs_without_headers
from torchwheel.host.this import make_private, temporary_variables
from torchwheel.progress.build_record import RECORD, Build
from torchwheel.progress.follow import follow_build
from torchwheel.reporting.errors import Problem, TorchwheelError, announce
from torchwheel.reporting.terminal import count_noun, format_duration, join_items, say, terminal_width
from torchwheel.system.files import write_if_changed
from torchwheel.system.locks import file_lock
from torchwheel.toolkit.pypi import assemble_toolkit

_NINJA_FILE = "build.ninja"
_LOG = "build.log"

# deps = gcc stores header dependencies in ninja's own log, which is read much faster than the files.
_VERSION = "1.5"
_RULES = {"plain": (), "gnu": ("  depfile = $out.d", "  deps = gcc"), "msvc": ("  deps = msvc",)}


def run_steps(plan: ExtensionPlan, folder: Path, steps: Sequence[Step], links: Mapping[str, Path]) -> None:
    """Run the steps of an extension that are not up to date.

    Args:
        folder: the extension's folder, in which they run; it is locked by the caller.
        links: links in it: name -> target.
    """
    log, environment = folder / _LOG, plan.project.environment
    provide_toolkit(plan)
    make_private(folder)
    write_links(folder, links)
    write_if_changed(folder / _NINJA_FILE, ninja_text(plan, steps))
    _drop_without_headers(folder, steps)
    with (
        invalidate_unseen_changes(BuildInputs(folder, plan.project.folder, environment)) as more,
        project_compiles(plan.project, plan.inputs.compiler_cache, {**environment, **more}, folder) as whole,
    ):
        _run_ninja(plan, folder, log, whole)


@contextmanager
def announced_build(plan: ExtensionPlan) -> Iterator[None]:
    """Say what is built where, and how long it took; errors of the plan stop it."""
    plan.stop_on_errors()
    began = time.monotonic()
    say(f"{plan.summary}, {count_noun(plan.jobs.max_jobs, 'job')} in {plan.folder}")
    announce(plan.findings, plan.skipped)
    for finding in plan.findings:
        if finding.id == KEPT:
            say("\n".join(finding.lines(terminal_width() - len("torchwheel: "), "note: ")))
    # setuptools' own backend also builds each sdist in a folder that it deletes afterwards.
    remove_orphans(plan.project.cache)
    make_private(plan.folder)
    with file_lock(plan.folder / "lock"):
        record_use(plan.folder, plan.project.folder)
        record_choice(plan.folder, plan.inputs.compiler_cache)
        yield
    say(f"compiling took {format_duration(time.monotonic() - began)}")


def _drop_without_headers(folder: Path, steps: Iterable[Step]) -> None:
    """Remove objects without recorded headers, because ninja would not detect changes of their headers.

    Ninja reads headers from lines that cl prints, in English only. Sources that include only system headers are
    affected, too.
    Source: https://ninja-build.org/manual.html#_deps (msvc_deps_prefix)
    """
    asked = [step for step in steps if step.cacheable and step.depfile is None]
    unknown = outputs_without_headers(folder) if asked else ()
    blind = [step for step in asked if step.output in unknown]
    for step in blind:
        (folder / step.output).unlink(missing_ok=True)
    if names := [source for step in blind for source in step.sources]:
        say(
            f"ninja learned of no headers in {join_items(names)}, so these are compiled each time: where cl "
            "speaks another language, install Visual Studio's English language pack, and set VSLANG=1033"
        )


def project_compiles(
    project: ExtensionProject, cache: str | None, environment: Mapping[str, str], folder: Path
) -> AbstractContextManager[Mapping[str, str]]:
    """Run a project's commands in ``folder`` with its compiler cache; yields their environment.

    The choice is recorded in the build folder. A script replaces a cache that was removed since.
    """
    windows = project.host.system == "Windows"
    settings = cache_variables(project.settings.compiler_cache, cache, [folder], windows=windows)
    if cache and cache not in caches_on_path(environment):
        scripts = folder / "stand-in"
        write_stand_in(scripts / cache)
        say(f"{missing_kept_cache(cache).what}  [{KEPT}]")
        search = os.pathsep.join([str(scripts), environment.get("PATH", "")])
        cache, environment = None, {**environment, "PATH": search}
    return compiler_cache(cache, environment, settings, folder)


def record_choice(folder: Path, cache: str | None) -> None:
    """Record the compiler cache of a build folder.

    Raises:
        OSError: it cannot be written.
    """
    write_if_changed(folder / CHOICE_FILE, cache or NO_CACHE)


def provide_toolkit(plan: ExtensionPlan) -> None:
    """Assemble the CUDA toolkit of a plan if it comes from installed packages."""
    selection = plan.inputs.selection
    if selection is not None and selection.site_packages is not None:
        toolkit = assemble_toolkit(selection.site_packages, plan.project.cache)
        note_user(Path(toolkit.root), plan.project.folder)


def _run_ninja(plan: ExtensionPlan, folder: Path, log: Path, environment: Mapping[str, str]) -> None:
    log.unlink(missing_ok=True)
    ninja = find_ninja(environment)
    # PyTorch compiles without ninja in its own way.
    assert ninja is not None
    with temporary_variables(plan.folder / "tmp", plan.project.settings.env) as own:
        whole = {**environment, **own, "NINJA_STATUS": STATUS}

        def run(jobs: int) -> None:
            try:
                with following_project(plan.project, folder, log, jobs, whole) as follow:
                    run_streaming(
                        [ninja, f"-j{jobs}"], folder=folder, environment=whole, log=log, follow=follow
                    )
            except ProcessFailed as failure:
                raise TorchwheelError(_build_failure(plan, log, failure.start)) from failure

        with_fewer_jobs(run, plan.jobs.max_jobs)


@contextmanager
def following_project(
    project: ExtensionProject, folder: Path, log: Path, jobs: int, environment: Mapping[str, str]
) -> Iterator[Follow]:
    """Follow a build of extensions in ``folder``, with its record beside its log."""
    source = str(project.folder)
    build = Build(project.folder.name, source, source, str(folder), str(log), jobs, of_extensions=True)
    with follow_build(build, log.with_name(RECORD), project.cache, environment) as follower:
        yield follower.follow_session


def _build_failure(plan: ExtensionPlan, log: Path, start: int) -> Problem:
    what = "the extensions could not be compiled"
    if full := full_disk(plan.folder, log, f"{what}: the disk is full"):
        return full
    problem = explained_failure("extension-build-failed", what, log, str(plan.project.folder), start)
    return with_repetition(problem, log, start, plan.folder)


def ninja_text(plan: ExtensionPlan, steps: Sequence[Step]) -> str:
    """Return the content of ``build.ninja``, which runs in an extension's folder."""
    lines = [f"ninja_required_version = {_VERSION}", ""]
    for rule, dependencies in _RULES.items():
        lines += [f"rule {rule}", "  command = $command", "  description = $what", *dependencies, ""]
    for step in steps:
        lines += [*_build_lines(plan, step), ""]
    return "\n".join(lines)


def _build_lines(plan: ExtensionPlan, step: Step) -> Iterator[str]:
    launcher = plan.inputs.launcher if step.cacheable else ()
    text = command_line([*launcher, *step.command], windows=plan.host_is_windows)
    rule = "gnu" if step.depfile else "msvc" if step.cacheable else "plain"
    inputs = " ".join(map(_escape_path, step.inputs))
    yield f"build {_escape_path(step.output)}: {rule} {inputs}"
    yield f"  command = {text.replace('$', '$$')}"
    yield f"  what = {step.description.replace('$', '$$')}"


def command_line(words: Sequence[str], *, windows: bool) -> str:
    """Quote words for the system's shell."""
    # Ninja runs commands by CreateProcess on Windows, and by sh elsewhere.
    return subprocess.list2cmdline(words) if windows else shlex.join(words)


def _escape_path(path: str) -> str:
    return path.replace("$", "$$").replace(" ", "$ ").replace(":", "$:")
