"""Build the planned extensions: one ``build.ninja`` for all of them, or a runner for machines without ninja.

Source: https://ninja-build.org/manual.html (Ninja file reference)
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from torchwheel.engine.cache import note_user, record_use, remove_orphans
from torchwheel.engine.cache_session import compiler_cache, write_stand_in
from torchwheel.engine.failure import explained_failure, full_disk, with_repetition
from torchwheel.engine.memory import with_fewer_jobs
from torchwheel.engine.process import Follow, ProcessFailed, run_streaming, start_process, terminate
from torchwheel.engine.unseen import invalidate_unseen_changes
from torchwheel.extension.compile.units import write_links
from torchwheel.extension.extension_plan import ExtensionPlan, ExtensionProject, Step
from torchwheel.extension.sources import is_source_file
from torchwheel.host.compiler_cache import (
    CHOICE_FILE,
    KEPT,
    NO_CACHE,
    cache_variables,
    caches_on_path,
    missing_kept_cache,
)
from torchwheel.host.ninja import STATUS, find_ninja, outputs_without_headers
from torchwheel.host.private_folder import make_private
from torchwheel.host.programs import VERSION, NoAnswer, ask_program, find_in_answer
from torchwheel.host.this import temporary_variables
from torchwheel.progress.build_record import RECORD, Build
from torchwheel.progress.follow import follow_build
from torchwheel.reporting.errors import Problem, TorchwheelError, announce, refusal
from torchwheel.reporting.masking import mask
from torchwheel.reporting.terminal import count_noun, format_duration, join_items, say, terminal_width
from torchwheel.system.files import open_log, write_if_changed
from torchwheel.system.locks import file_lock
from torchwheel.toolkit.pypi import assemble_toolkit

_NINJA_FILE = "build.ninja"
_LOG = "build.log"

# deps = gcc stores header dependencies in ninja's own log, which is read much faster than the files.
_VERSION = "1.5"
_RULES = {"plain": (), "gnu": ("  depfile = $out.d", "  deps = gcc"), "msvc": ("  deps = msvc",)}

_NO_NINJA = (
    'torchwheel: there is no ninja here, so every source is compiled again each time; add "ninja" to '
    "build-system.requires (without build isolation: pip install ninja)"
)


def build_extensions(
    plan: ExtensionPlan,
    environment: Mapping[str, str],
    use: Callable[[dict[str, Path]], None] = lambda _: None,
) -> dict[str, Path]:
    """Build all extensions of a plan that are not up to date.

    Args:
        use: called with the modules before another build, with other flags, can replace them.

    Returns:
        The modules: path below the wheel's root -> the file in the build folder.

    Raises:
        TorchwheelError: the plan has errors, or a command failed.
    """
    plan.stop_on_errors()
    began, log = time.monotonic(), plan.folder / _LOG
    place = f"{count_noun(plan.jobs.max_jobs, 'job')} in {plan.folder}, log {log}"
    say(f"{plan.summary}, {place}")
    announce(plan.findings, plan.skipped)
    for finding in plan.findings:
        if finding.id == KEPT:
            say("\n".join(finding.lines(terminal_width() - len("torchwheel: "), "note: ")))
    # setuptools' own backend also builds each sdist in a folder that it deletes afterwards.
    remove_orphans(plan.project.cache)
    provide_toolkit(plan)
    make_private(plan.folder)
    with file_lock(plan.folder / "lock"):
        record_use(plan.folder, plan.project.folder)
        record_choice(plan.folder, plan.inputs.compiler_cache)
        write_links(plan.folder, plan.links)
        # Files with unchanged content keep their times.
        for path, text in {_NINJA_FILE: ninja_text(plan), **plan.generated}.items():
            write_if_changed(plan.folder / path, text)
        _drop_without_headers(plan)
        with (
            invalidate_unseen_changes(plan.folder, plan.project.folder),
            project_compiles(plan.project, plan.inputs.compiler_cache, environment, plan.folder) as whole,
        ):
            _run_build(plan, log, whole)
        modules = {extension.file_name: plan.folder / extension.output for extension in plan.extensions}
        use(modules)
    say(f"compiling took {format_duration(time.monotonic() - began)}")
    return modules


def _drop_without_headers(plan: ExtensionPlan) -> None:
    """Remove objects without recorded headers, because ninja would not detect changes of their headers.

    Ninja reads headers from lines that cl prints, in English only. Sources that include only system headers are
    affected, too.
    Source: https://ninja-build.org/manual.html#_deps (msvc_deps_prefix)
    """
    asked = [step for one in plan.extensions for step in one.steps if step.cacheable and step.depfile is None]
    unknown = outputs_without_headers(plan.folder) if asked else ()
    blind = [step for step in asked if step.output in unknown]
    for step in blind:
        (plan.folder / step.output).unlink(missing_ok=True)
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
    """Assemble the CUDA toolkit of a plan if it comes from installed packages.

    Raises:
        TorchwheelError: it cannot be written.
    """
    selection = plan.inputs.selection
    if selection is not None and selection.site_packages is not None:
        toolkit = assemble_toolkit(selection.site_packages, plan.project.cache)
        note_user(Path(toolkit.root), plan.project.folder)


def _run_build(plan: ExtensionPlan, log: Path, environment: Mapping[str, str]) -> None:
    log.unlink(missing_ok=True)
    with temporary_variables(plan.folder / "tmp", plan.project.settings.env) as own:
        _run_commands(plan, log, {**environment, **own, "NINJA_STATUS": STATUS})


def _run_commands(plan: ExtensionPlan, log: Path, whole: Mapping[str, str]) -> None:
    if ninja := find_ninja(whole):
        _check_ninja(ninja)

        def run(jobs: int) -> None:
            try:
                with following_project(plan.project, plan.folder, log, jobs, whole) as follow:
                    run_streaming(
                        [ninja, f"-j{jobs}"],
                        folder=plan.folder,
                        environment=whole,
                        log=log,
                        follow=follow,
                    )
            except ProcessFailed as failure:
                raise TorchwheelError(_build_failure(plan, log, failure.start)) from failure

        with_fewer_jobs(run, plan.jobs.max_jobs)
    elif not _run_steps(plan, whole, log):
        raise TorchwheelError(_build_failure(plan, log))


def _check_ninja(ninja: str) -> None:
    try:
        find_in_answer(VERSION, ask_program([ninja, "--version"]))
    except NoAnswer as reason:
        raise refusal("ninja-does-not-answer/compilers", reason=reason) from None


@contextmanager
def following_project(
    project: ExtensionProject, folder: Path, log: Path, jobs: int, environment: Mapping[str, str]
) -> Iterator[Follow]:
    """Follow a build of extensions in ``folder``, with its record beside its log."""
    source = str(project.folder)
    build = Build(project.folder.name, source, source, str(folder), str(log), jobs, of_extensions=True)
    with follow_build(build, log.with_name(RECORD), project.cache, environment) as follower:
        yield follower.follow_session


def _run_steps(plan: ExtensionPlan, environment: Mapping[str, str], log: Path) -> bool:
    """Run all steps every time, until one fails; returns whether all succeeded."""
    print(_NO_NINJA, file=sys.stderr, flush=True)
    steps = [step for extension in plan.extensions for step in extension.steps]
    compiles = [step for step in steps if step.cacheable]
    with open_log(log) as record:
        record.truncate(0)

        def report(step: Step, done: subprocess.CompletedProcess[str]) -> bool:
            text = mask(f"{step.description}\n{done.stdout}")
            print(text, end="", flush=True)
            failed = "" if done.returncode == 0 else f"FAILED: {step.output}\n"
            record.write(f"{text}{failed}".encode("utf-8", "replace"))
            return done.returncode == 0

        running: list[subprocess.Popen[bytes]] = []
        with ThreadPoolExecutor(plan.jobs.max_jobs) as pool:
            runs = [pool.submit(_run_step, plan, step, environment, running) for step in compiles]
            try:
                for step, run in zip(compiles, runs, strict=True):
                    if not report(step, run.result()):
                        pool.shutdown(cancel_futures=True)
                        return False
            # Also after Ctrl-C: leaving the pool's block waits for every compiler that still runs.
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for process in tuple(running):
                    terminate(process)
                raise
        others = (step for step in steps if not step.cacheable)
        return all(report(step, _run_step(plan, step, environment, running)) for step in others)


def _run_step(
    plan: ExtensionPlan,
    step: Step,
    environment: Mapping[str, str],
    running: list[subprocess.Popen[bytes]],
) -> subprocess.CompletedProcess[str]:
    """Run one step, which is in ``running`` meanwhile and ends with this process."""
    (plan.folder / step.output).parent.mkdir(parents=True, exist_ok=True)
    command = [*(plan.inputs.launcher if step.cacheable else ()), *step.command]
    with start_process(command, plan.folder, environment) as process:
        assert process.stdout is not None
        running.append(process)
        text = process.stdout.read().decode("utf-8", "replace")
    running.remove(process)
    return subprocess.CompletedProcess(command, process.returncode, text)


def _build_failure(plan: ExtensionPlan, log: Path, start: int = 0) -> Problem:
    what = "the extensions could not be compiled"
    if full := full_disk(plan.folder, log, f"{what}: the disk is full"):
        return full
    problem = explained_failure("extension-build-failed", what, log, str(plan.project.folder), start)
    return with_repetition(problem, log, start, plan.folder)


def ninja_text(plan: ExtensionPlan) -> str:
    """Return the content of ``build.ninja``, which runs in the plan's build folder."""
    lines = [f"ninja_required_version = {_VERSION}", ""]
    for rule, dependencies in _RULES.items():
        lines += [f"rule {rule}", "  command = $command", "  description = $what", *dependencies, ""]
    for extension in plan.extensions:
        for step in extension.steps:
            lines += [*_build_lines(plan, step), ""]
    lines.append("default " + " ".join(_escape_path(extension.output) for extension in plan.extensions))
    return "\n".join(lines) + "\n"


def _build_lines(plan: ExtensionPlan, step: Step) -> Iterator[str]:
    launcher = plan.inputs.launcher if step.cacheable else ()
    text = command_line([*launcher, *step.command], windows=plan.host_is_windows)
    rule = "gnu" if step.depfile else "msvc" if step.cacheable else "plain"
    # Ninja fails at a missing input.
    named = (path for path in step.may_read if is_source_file(path, plan.folder))
    inputs = [*step.inputs, *named]
    yield f"build {_escape_path(step.output)}: {rule} {' '.join(_escape_path(path) for path in inputs)}"
    yield f"  command = {text.replace('$', '$$')}"
    yield f"  what = {step.description.replace('$', '$$')}"


def command_line(words: Sequence[str], *, windows: bool) -> str:
    """Quote words for the system's shell."""
    # Ninja runs commands by CreateProcess on Windows, and by sh elsewhere.
    return subprocess.list2cmdline(words) if windows else shlex.join(words)


def _escape_path(path: str) -> str:
    return path.replace("$", "$$").replace(" ", "$ ").replace(":", "$:")
