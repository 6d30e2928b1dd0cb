"""Examine a request on this machine or on a described one, and render the report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath, PureWindowsPath

from torchwheel.host.compiler_cache import find_compiler_cache
from torchwheel.plan.make import Inputs, make_plan
from torchwheel.preflight.effort import earlier_builds
from torchwheel.preflight.facts import HostFacts
from torchwheel.preflight.host_file import read_host_file
from torchwheel.preflight.report import NEEDLESS_BUILD, Report, check_plan, report_problems
from torchwheel.preflight.this_machine import read_facts
from torchwheel.reporting.errors import Finding, Severity, TorchwheelError, skipped_errors
from torchwheel.reporting.terminal import count_noun, format_facts, paint, wrap
from torchwheel.settings import Settings, load_settings
from torchwheel.settings.value_types import same_path
from torchwheel.survey import BuildRequest, source_tree, survey, usual_python
from torchwheel.toolkit.cuda_toolkit import Toolkit
from torchwheel.toolkit.pypi import toolkits_folder
from torchwheel.toolkit.read_toolkit import assumed_toolkit_at
from torchwheel.toolkit.select import Candidates


def examine_request(request: BuildRequest, host_file: Path | None = None) -> Report:
    """Report the problems of the requested build before it starts.

    An invalid request gives a report too, with all of its problems.
    """
    facts = read_host_file(host_file) if host_file is not None else None
    try:
        inputs = survey(request) if facts is None else described_inputs(request, facts)
    except TorchwheelError as error:
        return report_problems(error.problems)
    plan = make_plan(inputs)
    if facts is not None:
        return check_plan(plan, facts)
    return check_plan(plan, read_facts(request.environment, plan), earlier=earlier_builds(plan))


def described_inputs(request: BuildRequest, facts: HostFacts) -> Inputs:
    """Return the inputs of a plan for a described machine: its toolkits, its environment, its GPUs."""
    settings = load_settings(
        request.project,
        request.config_settings,
        facts.environment,
        facts.host,
        detect=lambda: facts.gpus or (),
    )
    tree = source_tree(request.project, settings)
    toolkits = tuple(found.toolkit for found in facts.toolkits or ())
    cache = _cache_folder(facts)
    # If its toolkits are known, having none is an error as on this machine.
    host = replace(facts.host, here=facts.toolkits is not None)
    return Inputs(
        settings=settings,
        tree=tree,
        host=host,
        toolkits=Candidates(
            _named_toolkit(settings, facts, toolkits),
            toolkits,
            folder=toolkits_folder(cache),
        ),
        cache=cache,
        environment=None if settings.build_env == "current" else Path("environment"),
        python_executable=facts.host.python.executable or usual_python(facts.host.platform_tag),
        compiler_cache=find_compiler_cache(settings.compiler_cache, facts.host, facts.environment),
    )


def _cache_folder(facts: HostFacts) -> Path:
    """The machine's own folder of builds, toolkits and environments, always with ``/``."""
    windows = facts.host.system == "Windows"
    if not facts.build_folder:
        return Path("~/AppData/Local/tw" if windows else "~/.cache/torchwheel")
    folder = PureWindowsPath(facts.build_folder) if windows else PurePosixPath(facts.build_folder)
    return Path(folder.parent.as_posix())


def _named_toolkit(settings: Settings, facts: HostFacts, toolkits: tuple[Toolkit, ...]) -> Toolkit | None:
    """The toolkit at ``cuda-path``: a known one, or one derived from its folder's name."""
    path = settings.cuda_path
    if path is None or settings.is_cpu:
        return None
    windows = facts.host.system == "Windows"
    known = next((toolkit for toolkit in toolkits if same_path(toolkit.root, path, windows=windows)), None)
    return known or assumed_toolkit_at(path, facts.host.platform_tag)


def render_report(
    report: Report, columns: int = 80, *, colour: bool = False, every: bool = False, sources: bool = False
) -> str:
    """Render doctor's report: findings in the order of fixing, passed checks, and what could not be checked."""
    lines: list[str] = []
    if report.wheel:
        lines += [paint(report.wheel, "heading", colour), ""]
    for result in report.results:
        finding = result.finding
        head = "note: " if finding.id in NEEDLESS_BUILD else finding.head(report.skipped)
        source = [f"    source: {result.source}"] if sources and result.source else []
        lines += [*finding.lines(columns, head, colour=colour), *source, ""]
    for sentence in report.passed.values() if every else ():
        lines += _item_lines("  ok  ", "ok", sentence, columns, colour)
    for missing, ids in report.unchecked.items():
        sentence = f"not known: {missing}; so these rules were not checked: {', '.join(ids)}"
        lines += _item_lines("  ?   ", "warning", sentence, columns, colour)
    if (every and report.passed) or report.unchecked:
        lines.append("")
    return "\n".join([*lines, *_summary_lines(report, columns, colour, every=every)])


def _item_lines(head: str, style: str, text: str, columns: int, colour: bool) -> Iterator[str]:
    first, *rest = wrap(text, columns - len(head))
    yield paint(head, style, colour) + first
    yield from (" " * len(head) + line for line in rest)


def _summary_lines(report: Report, columns: int, colour: bool, *, every: bool) -> Iterator[str]:
    if report.effort:
        yield from (*format_facts(report.effort.rows, columns).splitlines(), "")
    if report.evidence:
        yield from wrap(report.evidence, columns)
    unchecked = sum(map(len, report.unchecked.values()))
    skipped = skipped_errors(report.findings, report.skipped)
    left = [finding for finding in report.findings if finding.id not in skipped]
    counts = [
        *_count_severities(left),
        *([f"{count_noun(len(skipped), 'error')} skipped"] if skipped else []),
        f"{count_noun(len(report.passed), 'check')} passed{'' if every else ' (--all)'}",
    ]
    counts += [f"{count_noun(unchecked, 'check')} could not be made"] if unchecked else []
    verdict = (
        "the build would fail"
        if report.errors
        else "no error was found"
        if not skipped
        else "no other error was found"
    )
    style = "error" if report.errors else "ok"
    yield from (paint(line, style, colour) for line in wrap(f"{verdict}: {', '.join(counts)}", columns))


def _count_severities(findings: Iterable[Finding]) -> list[str]:
    """Count the findings by severity, the worst first: ``2 errors``, ``1 note``."""
    severities = [finding.severity for finding in findings]
    return [count_noun(severities.count(one), one.value) for one in Severity if one in severities]
