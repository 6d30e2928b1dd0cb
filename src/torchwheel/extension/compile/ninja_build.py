"""Run the steps of an extension: a ``build.ninja`` for each, compiler caches, and explained failures.

Source: https://ninja-build.org/manual.html (Ninja file reference)
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from torchwheel.engine.cache import note_user
from torchwheel.engine.cache_session import CompilerCache
from torchwheel.engine.process import ProcessFailed, build_failure, run_streaming
from torchwheel.engine.record import BuildInputs
from torchwheel.engine.session import Session, build_session, held_folder
from torchwheel.extension.compile.units import write_links
from torchwheel.extension.extension_plan import ExtensionPlan, ExtensionProject, Step
from torchwheel.host.compiler_cache import cache_variables
from torchwheel.host.compilers import join_words
from torchwheel.host.ninja import STATUS, find_ninja, outputs_without_headers
from torchwheel.host.this import make_private, temporary_variables
from torchwheel.progress.build_record import Build
from torchwheel.reporting.errors import TorchwheelError, announce
from torchwheel.reporting.terminal import count_noun, format_duration, join_items, say
from torchwheel.system.files import write_if_changed
from torchwheel.toolkit.assemble import assemble_toolkit

# deps = gcc stores header dependencies in ninja's own log, which is read much faster than the files.
_VERSION = "1.5"
_RULES = {"plain": (), "gnu": ("  depfile = $out.d", "  deps = gcc"), "msvc": ("  deps = msvc",)}


def run_steps(plan: ExtensionPlan, folder: Path, steps: Sequence[Step]) -> None:
    """Run the steps of an extension that are not up to date, in its folder, which the caller has locked."""
    log, project = folder / "build.log", plan.project
    provide_toolkit(plan)
    make_private(folder)
    write_links(folder, plan.layout.links)
    write_if_changed(folder / "build.ninja", ninja_text(plan, steps))
    _drop_without_headers(folder, steps)
    read, cache = BuildInputs(folder, project.folder, project.environment), plan.inputs.compiler_cache
    with project_session(project, cache, read, log, plan.jobs.max_jobs) as session:
        _run_ninja(plan, folder, log, session)


@contextmanager
def announced_build(plan: ExtensionPlan) -> Iterator[None]:
    began = time.monotonic()
    say(f"{plan.summary}, {count_noun(plan.jobs.max_jobs, 'job')} in {plan.folder}")
    announce(plan.findings, plan.skipped)
    with held_folder(plan.folder, plan.project.folder, plan.project.cache, plan.folder / "lock"):
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


def project_session(
    project: ExtensionProject, cache: str | None, read: BuildInputs, log: Path, jobs: int
) -> AbstractContextManager[Session]:
    source, windows = str(project.folder), project.host.system == "Windows"
    build = Build(project.folder.name, source, source, str(read.folder), str(log), jobs, of_extensions=True)
    variables = cache_variables(project.settings.compiler_cache, cache, [read.folder], windows=windows)
    return build_session(build, read, project.cache, CompilerCache(cache, variables, read.folder))


def provide_toolkit(plan: ExtensionPlan) -> None:
    """Assemble the CUDA toolkit of a plan if it comes from installed packages."""
    selection = plan.inputs.selection
    if selection is not None and selection.site_packages is not None:
        toolkit = assemble_toolkit(selection.site_packages, plan.project.cache)
        note_user(Path(toolkit.root), plan.project.folder)


def _run_ninja(plan: ExtensionPlan, folder: Path, log: Path, session: Session) -> None:
    log.unlink(missing_ok=True)
    ninja = find_ninja(plan.project.environment)
    # PyTorch compiles without ninja in its own way.
    assert ninja is not None

    def run(whole: Mapping[str, str], jobs: int) -> None:
        follow = session.follower.follow_session
        try:
            run_streaming([ninja, f"-j{jobs}"], folder=folder, environment=whole, log=log, follow=follow)
        except ProcessFailed as failure:
            what, origin = "the extensions could not be compiled", str(plan.project.folder)
            problem = build_failure("extension-build-failed", what, failure, origin, folder)
            raise TorchwheelError(problem) from failure

    with temporary_variables(plan.folder / "tmp", plan.project.settings.env) as own:
        session.run({**plan.project.environment, **own, "NINJA_STATUS": STATUS}, run)


def ninja_text(plan: ExtensionPlan, steps: Sequence[Step]) -> str:
    lines = [f"ninja_required_version = {_VERSION}", ""]
    for rule, dependencies in _RULES.items():
        lines += [f"rule {rule}", "  command = $command", "  description = $what", *dependencies, ""]
    for step in steps:
        lines += [*_build_lines(plan, step), ""]
    return "\n".join(lines)


def _build_lines(plan: ExtensionPlan, step: Step) -> Iterator[str]:
    launcher = plan.launcher if step.cacheable else ()
    text = join_words([*launcher, *step.command], windows=plan.host_is_windows)
    rule = "gnu" if step.depfile else "msvc" if step.cacheable else "plain"
    inputs = " ".join(map(_escape_path, step.inputs))
    yield f"build {_escape_path(step.output)}: {rule} {inputs}"
    yield f"  command = {text.replace('$', '$$')}"
    yield f"  what = {step.description.replace('$', '$$')}"


def _escape_path(path: str) -> str:
    return path.replace("$", "$$").replace(" ", "$ ").replace(":", "$:")
