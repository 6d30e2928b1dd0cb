"""Every rule that needs no machine, over all targets, CUDA toolkits and PyTorch releases of a project."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from torchwheel.errors import Problem, TorchwheelError
from torchwheel.findings import Severity, error
from torchwheel.hardware.catalogue import gpus
from torchwheel.host import described_host
from torchwheel.host.model import Host
from torchwheel.preflight.build_matrix import Combination, combination_of
from torchwheel.preflight.checks import combination_checks
from torchwheel.preflight.formatting import span
from torchwheel.preflight.registry import Broken
from torchwheel.preflight.report import Result, result_of
from torchwheel.preflight.rule_base import rules
from torchwheel.pytorch.published import PLATFORMS
from torchwheel.pytorch.releases import PytorchRelease, releases
from torchwheel.settings import Settings, load_settings
from torchwheel.settings.overlays import read_overlays
from torchwheel.settings.project import read_project, read_project_settings
from torchwheel.survey import source_tree
from torchwheel.toolkit.catalogue import ToolkitRelease, toolkits

_NO_USER_OVERLAYS = Path(os.devnull)
"""What lies in the configuration folder of whoever runs it must not decide what a project's lint says."""


@dataclass(frozen=True)
class Cell:
    """What works for one target on one platform with one PyTorch.

    Attributes:
        target: canonical name.
        platform: platform tag.
        pytorch: minor version.
        toolkits: the CUDA toolkits that work, oldest first; empty for none.
        cuda: whether the target is built with CUDA.
    """

    target: str
    platform: str
    pytorch: str
    toolkits: tuple[str, ...]
    cuda: bool


@dataclass(frozen=True)
class Found:
    """A result about a target, with the platforms that it holds for."""

    target: str
    platforms: tuple[str, ...]
    result: Result


@dataclass(frozen=True)
class LintReport:
    """What lint has to say: findings by target, and the matrix of what works."""

    found: tuple[Found, ...]
    cells: tuple[Cell, ...]

    @property
    def errors(self) -> tuple[Found, ...]:
        """What fails the lint."""
        return tuple(found for found in self.found if found.result.finding.severity is Severity.ERROR)


def lint(project: Path | None) -> LintReport:
    """Hold all targets of a project against every PyTorch release and CUDA toolkit.

    With a source tree in the project, only its own release is looked at.

    Args:
        project: the folder with the pyproject.toml; None for the built-in overlays alone.

    Raises:
        TorchwheelError: there is nothing to look at: no such folder, or a pyproject.toml that cannot be read.
    """
    found: list[Found] = []
    cells: list[Cell] = []
    pinned = _pinned_release(project)
    known = (pinned,) if pinned else _latest_patches()
    for target in _targets(project):
        for platform in _platforms(target):
            host = described_host(platform)
            try:
                settings = _settings(project, target, host)
            except TorchwheelError as failure:
                found += [Found(target, (platform,), Result(error(problem))) for problem in failure.problems]
                continue
            matrix = _matrix(settings, host, known)
            own = [_cell(target, platform, release, row, settings) for release, row in matrix.items()]
            cells += own
            found += [Found(target, (platform,), r) for r in _always_broken(matrix)]
            found += [Found(target, (platform,), r) for r in _unbuildable(own, target, matrix)]
            found += [Found(target, (platform,), r) for r in _wide_range(settings, target)]
    return LintReport(tuple(_merged(found)), tuple(cells))


Row = dict[str, list[Result]]
"""What is found with each CUDA toolkit; with the empty name for a build without CUDA."""
Matrix = dict[PytorchRelease, Row]


def _targets(project: Path | None) -> tuple[str, ...]:
    problems: list[Problem] = []
    host = described_host("linux_x86_64")
    own = read_project_settings(read_project(project) if project else None, host, problems)
    if problems:
        raise TorchwheelError(problems)
    defaults = [name for setting in own.settings if setting.key == "target" for name in setting.value]
    if own.targets or defaults:
        return tuple(sorted({*own.targets, *defaults} - {"native"}))
    return read_overlays({}, None, host, []).names("target")


def _platforms(target: str) -> tuple[str, ...]:
    gpu = gpus().find(target)
    usual = gpu.platforms if gpu is not None else PLATFORMS
    return tuple(platform for platform in PLATFORMS if platform in usual) or PLATFORMS


def _settings(project: Path | None, target: str, host: Host) -> Settings:
    return load_settings(project, {"target": target}, {}, host, _NO_USER_OVERLAYS)


def _pinned_release(project: Path | None) -> PytorchRelease | None:
    """The release of the project's own source tree, if there is one."""
    if project is None:
        return None
    try:
        settings = load_settings(
            project, {"target": "cpu"}, {}, described_host("linux_x86_64"), _NO_USER_OVERLAYS
        )
        return releases().release(source_tree(project, settings).version_text)
    except TorchwheelError:
        return None


def _latest_patches() -> tuple[PytorchRelease, ...]:
    """The last patch release of every minor version: what lint looks at does not differ between them."""
    return tuple({release.minor_version: release for release in releases()}.values())


def _matrix(settings: Settings, host: Host, known: Iterable[PytorchRelease]) -> Matrix:
    admitted: tuple[ToolkitRelease | None, ...] = (None,) if settings.is_cpu else _admitted(settings)
    return {
        release: {
            toolkit.version if toolkit else "": _broken(
                combination_of(settings, host, toolkit, release, any_python=True)
            )
            for toolkit in admitted
        }
        for release in known
    }


def _admitted(settings: Settings) -> tuple[ToolkitRelease, ...]:
    wanted = settings.cuda_range
    return tuple(t for t in toolkits() if wanted is None or wanted.contains(t.version))


def _broken(combination: Combination) -> list[Result]:
    found = []
    for id, check in combination_checks().items():
        rule, answer = rules().by_id[id], check(combination)
        if isinstance(answer, Broken):
            found.append(result_of(rule, answer))
    return found


def _has_errors(results: Iterable[Result]) -> bool:
    return any(result.finding.severity is Severity.ERROR for result in results)


def _cell(target: str, platform: str, release: PytorchRelease, row: Row, settings: Settings) -> Cell:
    working = tuple(version for version, results in row.items() if version and not _has_errors(results))
    return Cell(target, platform, release.minor_version, working, cuda=not settings.is_cpu)


def _always_broken(matrix: Matrix) -> Iterator[Result]:
    """What no choice of toolkit or PyTorch avoids, in the words of the newest one."""
    rows = [results for row in matrix.values() for results in row.values()]
    if not rows:
        return
    always = set.intersection(*({result.finding.id for result in results} for results in rows))
    yield from (result for result in rows[-1] if result.finding.id in always)


def _unbuildable(cells: list[Cell], target: str, matrix: Matrix) -> Iterator[Result]:
    if any(cell.toolkits or not cell.cuda for cell in cells):
        return
    errors = [
        result.finding.problem
        for row in matrix.values()
        for results in row.values()
        for result in results
        if result.finding.severity is Severity.ERROR
    ]
    versions = [cell.pytorch for cell in cells]
    values = {
        "target": target,
        "pytorch": f"PyTorch {span(versions)}",
        "reason": errors[-1].what if errors else "the range admits none of the known CUDA toolkits",
    }
    nearest = errors[-1].remedy if errors else "-C cuda="
    yield result_of(rules().by_id["no-working-combination"], Broken(values, nearest))


def _wide_range(settings: Settings, target: str) -> Iterator[Result]:
    code, wanted = settings.architectures, settings.get("cuda")
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
    broken = Broken(values, f">={serving[0]}{until}", wanted.origin)
    yield result_of(rules().by_id["range-admits-incapable-toolkit"], broken)


def _merged(found: Iterable[Found]) -> Iterator[Found]:
    """Findings of one target that differ in nothing but the platform, as one; errors first."""
    by_text: dict[tuple[str, Result], list[str]] = {}
    for item in found:
        by_text.setdefault((item.target, item.result), []).extend(item.platforms)
    order = tuple(Severity)
    ordered = sorted(by_text.items(), key=lambda entry: order.index(entry[0][1].finding.severity))
    for (target, result), platforms in ordered:
        yield Found(target, tuple(dict.fromkeys(platforms)), result)
