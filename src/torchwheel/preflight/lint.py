"""Every rule that needs no machine, over all targets, CUDA toolkits and PyTorch releases of a project."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchwheel.errors import Problem, TorchwheelError, stop_on
from torchwheel.findings import Severity, error
from torchwheel.hardware.catalogue import gpus
from torchwheel.host.described import described_host
from torchwheel.host.model import Host
from torchwheel.preflight.build_matrix import Combination, combination_of, is_published
from torchwheel.preflight.checks import COMBINATION_CHECKS
from torchwheel.preflight.registry import Violation
from torchwheel.preflight.report import Result, result_of
from torchwheel.preflight.rule_base import rules
from torchwheel.pytorch.published import PLATFORMS
from torchwheel.pytorch.releases import PytorchRelease, releases
from torchwheel.settings import Settings, load_settings
from torchwheel.settings.overlays import NO_USER_OVERLAYS, read_overlays
from torchwheel.settings.project import read_project, read_project_settings
from torchwheel.survey import source_tree
from torchwheel.toolkit.catalogue import ToolkitRelease, toolkits
from torchwheel.versions import span


@dataclass(frozen=True)
class Cell:
    """What nothing speaks against, for one target on one platform with one PyTorch.

    Attributes:
        target: canonical name.
        pytorch: minor version.
        published: the CUDA toolkits that official builds of that PyTorch for that platform are made with, oldest first;
            an empty name for a build without CUDA.
        untried: the others that no rule speaks against, and whose nvcc has no known bug there: nobody is known to have
            built with them.
    """

    target: str
    platform: str
    pytorch: str
    published: tuple[str, ...]
    untried: tuple[str, ...]


@dataclass(frozen=True)
class Found:
    """A result about a target, with the platforms that it holds for."""

    target: str
    platforms: tuple[str, ...]
    result: Result


@dataclass(frozen=True)
class LintReport:
    """What lint has to say: findings by target, and the matrix of what nothing speaks against."""

    found: tuple[Found, ...]
    cells: tuple[Cell, ...]

    @property
    def errors(self) -> tuple[Found, ...]:
        """What fails the lint."""
        return tuple(found for found in self.found if _is_error(found.result))

    def document(self) -> dict[str, Any]:
        return {
            "ok": not self.errors,
            "findings": [
                {**found.result.document(), "target": found.target, "platforms": list(found.platforms)}
                for found in self.found
            ],
            "combinations": [
                {**vars(cell), "published": list(cell.published), "untried": list(cell.untried)}
                for cell in self.cells
            ],
        }


Row = dict[str, list[Result]]
"""What is found with each CUDA toolkit; with the empty name for a build without CUDA."""


def lint(project: Path | None) -> LintReport:
    """Hold all targets of a project against every PyTorch release and CUDA toolkit.

    With a source tree in the project, only its own release is looked at.

    Args:
        project: the folder with the pyproject.toml; None for the built-in overlays alone.

    Raises:
        TorchwheelError: there is nothing to look at: no such folder, or a pyproject.toml that cannot be read.
    """
    found: dict[tuple[str, Result], list[str]] = {}
    cells: list[Cell] = []
    own = _own_release(project)
    # Of a minor version the last patch release: what lint looks at does not differ between them.
    known = [own] if own else list({release.minor_version: release for release in releases()}.values())
    for target in _targets(project):
        for platform in _platforms(target):
            results, row = _examined(project, target, described_host(platform), known)
            for result in results:
                found.setdefault((target, result), []).append(platform)
            cells += row
    # Findings that differ in nothing but the platform are one; errors first.
    ordered = sorted(found.items(), key=lambda item: item[0][1].finding.severity.rank)
    merged = (Found(target, tuple(dict.fromkeys(where)), result) for (target, result), where in ordered)
    return LintReport(tuple(merged), tuple(cells))


def _targets(project: Path | None) -> tuple[str, ...]:
    problems: list[Problem] = []
    host = described_host("linux_x86_64")
    own = read_project_settings(read_project(project) if project else None, host, problems)
    stop_on(problems)
    defaults = [name for setting in own.settings if setting.key == "target" for name in setting.value]
    if own.targets or defaults:
        return tuple(sorted({*own.targets, *defaults} - {"native"}))
    return read_overlays({}, None, host, []).names("target")


def _platforms(target: str) -> tuple[str, ...]:
    gpu = gpus().find(target)
    usual = gpu.platforms if gpu is not None else PLATFORMS
    return tuple(platform for platform in PLATFORMS if platform in usual) or PLATFORMS


def _settings(project: Path | None, target: str, host: Host) -> Settings:
    return load_settings(project, {"target": target}, {}, host, NO_USER_OVERLAYS)


def _own_release(project: Path | None) -> PytorchRelease | None:
    """The release of the project's own source tree, if there is one."""
    if project is None:
        return None
    try:
        settings = _settings(project, "cpu", described_host("linux_x86_64"))
        return releases().release(source_tree(project, settings).version_text)
    except TorchwheelError:
        return None


def _examined(
    project: Path | None, target: str, host: Host, known: Iterable[PytorchRelease]
) -> tuple[list[Result], list[Cell]]:
    """What is found about a target on a platform, and what works there, release by release."""
    try:
        settings = _settings(project, target, host)
    except TorchwheelError as failure:
        return [Result(error(problem)) for problem in failure.problems], []
    cuda = not settings.is_cpu
    admitted: tuple[ToolkitRelease | None, ...] = _admitted(settings) if cuda else (None,)
    cells, rows = [], []
    for release in known:
        combinations = {
            toolkit.version if toolkit else "": combination_of(
                settings, host, toolkit, release, any_python=True
            )
            for toolkit in admitted
        }
        row = {name: _violations(combination) for name, combination in combinations.items()}
        possible = [name for name, results in row.items() if not any(map(_is_error, results))]
        published = tuple(name for name in possible if is_published(combinations[name]))
        untried = tuple(name for name in possible if name not in published and not _has_bug(row[name]))
        cells.append(Cell(target, host.platform_tag, release.minor_version, published, untried))
        rows.append(row)
    return [*_unavoidable(rows), *_unbuildable(cells, rows), *_wide_range(settings, target)], cells


def _admitted(settings: Settings) -> tuple[ToolkitRelease, ...]:
    wanted = settings.cuda
    return tuple(t for t in toolkits() if wanted is None or wanted.contains(t.version))


def _violations(combination: Combination) -> list[Result]:
    answers = ((rules()[id], check(combination)) for id, check in COMBINATION_CHECKS.items())
    return [result_of(rule, answer) for rule, answer in answers if isinstance(answer, Violation)]


def _is_error(result: Result) -> bool:
    return result.finding.severity is Severity.ERROR


def _has_bug(results: Iterable[Result]) -> bool:
    """Whether nvcc is known to fail: no error, since PyTorch goes around it from some release on."""
    return any(result.finding.id == "nvcc-bug" for result in results)


def _unavoidable(rows: list[Row]) -> Iterator[Result]:
    """What no choice of toolkit or PyTorch avoids, in the words of the newest one."""
    every = [results for row in rows for results in row.values()]
    if every:
        always = set.intersection(*({result.finding.id for result in results} for results in every))
        yield from (result for result in every[-1] if result.finding.id in always)


def _unbuildable(cells: list[Cell], rows: list[Row]) -> Iterator[Result]:
    if any(cell.published or cell.untried for cell in cells):
        return
    every = (result for row in rows for results in row.values() for result in results)
    errors = [result.finding.problem for result in every if _is_error(result)]
    values = {
        "target": cells[0].target,
        "pytorch": f"PyTorch {span([cell.pytorch for cell in cells])}",
        "reason": errors[-1].what if errors else "the range admits none of the known CUDA toolkits",
    }
    nearest = errors[-1].remedy if errors else "-C cuda="
    yield result_of(rules()["no-working-combination"], Violation(values, nearest))


def _wide_range(settings: Settings, target: str) -> Iterator[Result]:
    code, wanted = settings.arch, settings.get("cuda")
    if settings.is_cpu or code is None or wanted is None:
        return
    able = [toolkit.version for toolkit in toolkits().compiling_all(code.architectures)]
    admitted = [toolkit.version for toolkit in _admitted(settings)]
    unable = [version for version in admitted if version not in able]
    if not unable or not able:
        return
    serving = [version for version in admitted if version in able] or able
    until = "" if serving[-1] == toolkits().newest().version else f",<={serving[-1]}"
    values = {
        "target": target,
        "versions": span(unable),
        "range": wanted.text,
        "architectures": str(code),
        "span": f"CUDA {span(able)} compiles for all of them",
    }
    violation = Violation(values, f">={serving[0]}{until}", wanted.origin)
    yield result_of(rules()["range-admits-incapable-toolkit"], violation)
