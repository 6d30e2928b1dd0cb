"""Examine a request on this machine or on a described one, and render the report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from torchwheel.host.compiler_cache import find_compiler_cache
from torchwheel.plan.build_plan import Plan
from torchwheel.plan.make import Inputs, make_plan
from torchwheel.preflight.checks.published import describe_evidence
from torchwheel.preflight.effort import Effort, read_effort
from torchwheel.preflight.facts import HostFacts
from torchwheel.preflight.host_file import read_host_file
from torchwheel.preflight.registry import read_rules
from torchwheel.preflight.report import NEEDLESS_BUILD, Report, in_order, run_preflight
from torchwheel.reporting.errors import Finding, Severity, TorchwheelError, error, skipped_errors
from torchwheel.reporting.terminal import count_noun, fields_of, format_facts, paint, wrap
from torchwheel.settings import Settings, load_settings
from torchwheel.settings.value_types import same_path
from torchwheel.survey import BuildRequest, source_tree, survey, usual_python
from torchwheel.toolkit.cuda_toolkit import Toolkit, assumed_toolkit_at
from torchwheel.toolkit.pypi import toolkits_folder
from torchwheel.toolkit.select import Candidates


@dataclass(frozen=True)
class Examination:
    """Doctor's report, and what it says of a build that could be planned."""

    report: Report
    wheel: str = ""
    platform: str = ""
    evidence: str = ""
    effort: Effort | None = None

    @classmethod
    def of(cls, findings: Iterable[Finding], skipped: Iterable[str] = ()) -> Examination:
        return cls(Report(in_order(findings), tuple(skipped)))

    def document(self) -> dict[str, Any]:
        report = self.report
        return {
            **fields_of(self, "wheel", "platform"),
            "ok": not report.errors,
            "findings": [{**one.document(), "source": source_of(one)} for one in report.findings],
            "skipped": skipped_errors(report.findings, report.skipped),
            "passed": list(report.passed),
            "unchecked": [
                {"missing": missing, "rules": list(ids)} for missing, ids in report.unchecked.items()
            ],
            "evidence": self.evidence,
            "effort": self.effort.document() if self.effort else None,
        }


def source_of(finding: Finding) -> str:
    rule = read_rules().get(finding.id)
    return rule.source if rule else ""


def examine_request(request: BuildRequest, host_file: Path | None = None) -> Examination:
    """Report the problems of the requested build, or of an invalid request, before it starts."""
    facts = read_host_file(host_file) if host_file is not None else None
    try:
        return examine_plan(request, facts)[1]
    except TorchwheelError as failure:
        return Examination.of(map(error, failure.problems))


def examine_plan(request: BuildRequest, facts: HostFacts | None) -> tuple[Plan, Examination]:
    plan = make_plan(survey(request) if facts is None else described_inputs(request, facts))
    return plan, Examination(
        run_preflight(plan, request.environment, facts),
        plan.wheel_name,
        plan.host.platform_tag,
        describe_evidence(plan),
        read_effort(plan, here=plan.host.here and facts is None),
    )


def described_inputs(request: BuildRequest, facts: HostFacts) -> Inputs:
    settings = load_settings(
        request.project,
        request.config_settings,
        facts.environment,
        facts.host,
        detect=lambda: facts.gpus or (),
    )
    tree = source_tree(request.project, settings)
    toolkits = tuple(found.toolkit for found in facts.toolkits or ())
    named, cache = _named_toolkit(settings, facts, toolkits), _cache_folder(facts)
    # If its toolkits are known, having none is an error as on this machine.
    host = replace(facts.host, here=facts.toolkits is not None)
    return Inputs(
        settings=settings,
        tree=tree,
        host=host,
        toolkits=Candidates(named, toolkits, folder=toolkits_folder(cache)),
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


def render_report(examined: Examination, columns: int = 80, *, colour: bool = False) -> str:
    """Render doctor's report: findings in the order of fixing, and what could not be checked."""
    lines, report = list[str](), examined.report
    if examined.wheel:
        lines += [paint(examined.wheel, "heading", colour), ""]
    for finding in report.findings:
        head = "note: " if finding.id in NEEDLESS_BUILD else finding.head(report.skipped)
        lines += [*finding.lines(columns, head, colour=colour), ""]
    for missing, ids in report.unchecked.items():
        sentence = f"not known: {missing}; so these rules were not checked: {', '.join(ids)}"
        first, *rest = wrap(sentence, columns - 6)
        lines += [paint("  ?   ", "warning", colour) + first, *(f"      {line}" for line in rest)]
    if report.unchecked:
        lines.append("")
    return "\n".join([*lines, *_summary_lines(examined, columns, colour)])


def _summary_lines(examined: Examination, columns: int, colour: bool) -> Iterator[str]:
    report = examined.report
    if examined.effort:
        yield from (*format_facts(examined.effort.rows, columns).splitlines(), "")
    if examined.evidence:
        yield from wrap(examined.evidence, columns)
    unchecked = sum(map(len, report.unchecked.values()))
    skipped = skipped_errors(report.findings, report.skipped)
    severities = [finding.severity for finding in report.findings if finding.id not in skipped]
    counts = [
        *(count_noun(severities.count(one), one.value) for one in Severity if one in severities),
        *([f"{count_noun(len(skipped), 'error')} skipped"] if skipped else []),
        f"{count_noun(len(report.passed), 'check')} passed",
    ]
    counts += [f"{count_noun(unchecked, 'check')} could not be made"] if unchecked else []
    sound = "no other error was found" if skipped else "no error was found"
    style, verdict = ("error", "the build would fail") if report.errors else ("ok", sound)
    yield from (paint(line, style, colour) for line in wrap(f"{verdict}: {', '.join(counts)}", columns))
