"""Choose the CUDA toolkit of a build: one of this machine, one from PyPI's packages, or an assumed one."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torchwheel.hardware.arch import CodeTarget, judge_code
from torchwheel.hardware.architecture import known_architectures
from torchwheel.reporting.errors import Finding, Problem, Severity, error, note
from torchwheel.reporting.terminal import config_option
from torchwheel.settings import Layer
from torchwheel.toolkit.cuda_releases import compiled_by, read_toolkits
from torchwheel.toolkit.cuda_toolkit import Toolkit, assumed_toolkit
from torchwheel.toolkit.needs import PYPI, SYSTEM, Needs, cuda_span, find_objections, find_remarks
from torchwheel.toolkit.pypi import PackagedToolkit, requirements_for

_log = logging.getLogger(__name__)
Refused = Sequence[tuple[Toolkit, Problem]]


@dataclass(frozen=True)
class Candidates:
    named: Toolkit | None = None
    installed: Sequence[Toolkit] = ()
    packaged: Sequence[PackagedToolkit] = ()
    folder: Path = Path("toolkits")


@dataclass(frozen=True)
class Selection:
    """The toolkit of a build, the setting that chose it, and the findings about it.

    Attributes:
        toolkit: the toolkit; if none was found, the one to install in its usual folder; None if no release is usable.
    """

    toolkit: Toolkit | None
    layer: Layer
    origin: str
    findings: tuple[Finding, ...] = ()
    requirements: tuple[str, ...] = ()
    site_packages: Path | None = None
    there: bool = True

    @property
    def to_install(self) -> tuple[str, ...]:
        return () if self.there else self.requirements


def select_toolkit(needs: Needs, candidates: Candidates) -> Selection:
    """Choose the CUDA toolkit; where none can be used, say by which name newer ones know the same hardware."""
    selection = _select(needs, candidates)
    if all(finding.severity is not Severity.ERROR for finding in selection.findings):
        return selection
    return replace(selection, findings=(*selection.findings, *map(note, _find_renamed(needs))))


def _find_renamed(needs: Needs) -> Iterator[Problem]:
    requested = needs.settings.entries.get("arch")
    text = requested.text if requested else needs.architecture_list
    for architecture in needs.architectures:
        capability = architecture.capability
        newer = known_architectures().current_name(capability)
        if newer != capability:
            releases = read_toolkits().compiling_all([newer])
            yield Problem.of(
                "architecture-renamed",
                origin=requested.origin if requested else "",
                dotted=capability.dotted,
                newer=newer.dotted,
                cuda=releases[0].version,
                arch=re.sub(rf"(?<![\d.]){re.escape(capability.dotted)}(?!\d)", newer.dotted, text),
            )


def _select(needs: Needs, candidates: Candidates) -> Selection:
    """Use or refuse a named toolkit; else ``cuda-from`` decides.

    It is the first usable installed one in the build's order of preference, else one from PyPI's packages, installed
    ones first. If none is usable, a suitable release is assumed in its usual folder.
    """
    settings = needs.settings
    if candidates.named is not None:
        setting, named = settings.entries["cuda-path"], candidates.named
        findings = tuple(error(problem) for problem in find_objections(named, needs, setting.origin))
        findings = findings or tuple(find_remarks(named, needs, setting.origin))
        return Selection(named, setting.layer, setting.origin, findings)

    # Nothing can be installed on a described machine, unless that is requested.
    offered = needs.installable_releases() if needs.host.here or settings.cuda_from == PYPI else ()
    preferred = needs.choose_release(offered)
    refused: list[tuple[Toolkit, Problem]] = []

    def rank(packaged: PackagedToolkit) -> tuple[object, ...]:
        cuda = packaged.toolkit.version
        return preferred is None or cuda != preferred[0], needs.sort_key(cuda)

    if settings.cuda_from != PYPI:
        # Equal ones keep their order, the best first, because sorted() is stable.
        for toolkit in sorted(candidates.installed, key=lambda one: needs.sort_key(one.version)):
            if not (problem := _find_objection(toolkit, needs)):
                found = tuple(find_remarks(toolkit, needs, toolkit.origin))
                return Selection(toolkit, Layer.DEFAULT, f"found by {toolkit.origin}", found)
            refused.append((toolkit, problem))
    if settings.cuda_from != SYSTEM:
        for packaged in sorted(candidates.packaged, key=rank):
            if not (problem := _find_objection(packaged.toolkit, needs)):
                return _from_packages(needs, packaged, refused)
            refused.append((packaged.toolkit, problem))
        if preferred is not None:
            return _to_be_installed(needs, *preferred, candidates.folder, refused)
    return _no_release_fits(needs, refused)


def _find_objection(toolkit: Toolkit, needs: Needs) -> Problem | None:
    problem = next(find_objections(toolkit, needs, toolkit.origin), None)
    answer = f"passed over: {problem.what}" if problem else "taken"
    _log.info("CUDA %s in %s is %s", toolkit.full_version, toolkit.root, answer)
    return problem


def _note_pypi(needs: Needs, cuda: str, why: str, refused: Refused) -> Finding:
    reasons = "; ".join([why, *(problem.what for _, problem in refused)])
    other = _suggest_other_code(needs, refused)
    return note(Problem.of("toolkit-from-pypi", cuda=cuda, why=reasons, other=other))


def _suggest_other_code(needs: Needs, refused: Refused) -> str:
    """Suggest architectures that a refused toolkit compiles and the same GPUs run; empty if there are none."""
    # Problems of architectures come last, so such a toolkit has no other one.
    for toolkit in (one for one, problem in refused if problem.id == "toolkit-lacks-architecture"):
        release = read_toolkits().release(toolkit.version)
        plain = sorted(one for one in (release.architectures if release else ()) if not one.suffix)
        code = [CodeTarget(one, sass=True, ptx=False) for one in plain]
        able = [[one for one in code if judge_code([one], gpu).how.runs] for gpu in needs.architectures]
        if all(able) and not any(one.suffix for one in needs.architectures):
            option = config_option("arch", ";".join(dict.fromkeys(one[-1].text for one in able)))
            return f"let CUDA {toolkit.version} compile code that the same GPUs run: {option}"
    return ""


def _from_packages(needs: Needs, packaged: PackagedToolkit, refused: Refused) -> Selection:
    toolkit, layer = packaged.toolkit, needs.settings.entries["cuda-from"].layer
    why = f"it is made of the packages in {packaged.site_packages}"
    noted = _note_pypi(needs, toolkit.version, why, refused)
    found = (noted, *find_remarks(toolkit, needs, toolkit.origin))
    return Selection(toolkit, layer, toolkit.origin, found, packaged.requirements, packaged.site_packages)


def _to_be_installed(needs: Needs, release: str, reason: str, folder: Path, refused: Refused) -> Selection:
    platform = needs.host.platform_tag
    toolkit = assumed_toolkit(release, platform, folder / f"cuda-{release}")
    requirements = requirements_for(release, needs.settings.cuda)
    why = f"it is {reason}; NVIDIA's packages are installed for the build, in {folder}"
    noted = _note_pypi(needs, toolkit.version, why, refused)
    setting, finding = needs.settings.entries["cuda-from"], needs.check_release(release, toolkit.root, "PyPI")
    toolkit, origin = replace(toolkit, origin="PyPI"), f"{setting.origin}: {reason}"
    found = (noted, finding) if finding else (noted,)
    return Selection(toolkit, setting.layer, origin, found, requirements, there=False)


def _no_release_fits(needs: Needs, refused: Refused) -> Selection:
    cuda, cuda_from = needs.settings.entries.get("cuda"), needs.settings.entries["cuda-from"]
    layer = cuda.layer if cuda else Layer.DEFAULT
    if cuda_from.value == PYPI:
        problem = needs.not_on_pypi() or _no_toolkit_on_pypi(needs, refused)
        found = (error(replace(problem, origin=cuda_from.origin)),)
        return Selection(None, cuda_from.layer, cuda_from.origin, found, there=False)
    preferred = needs.choose_release(needs.usable_releases())
    if preferred is None:
        origin = cuda.origin if cuda else "no CUDA release fits"
        return Selection(None, layer, origin, (error(_no_release(needs)),), there=False)
    release, reason = preferred
    toolkit = assumed_toolkit(release, needs.host.platform_tag)
    origin = f"{reason}, in the range {cuda.text} ({cuda.origin})" if cuda else reason
    if needs.host.here:
        found = (error(_not_installed(needs, release, reason, refused)),)
        return Selection(toolkit, layer, origin, found, there=False)
    assumed = Problem.of("toolkit-assumed", cuda=toolkit.version, root=toolkit.root, reason=origin)
    return Selection(toolkit, layer, origin, (note(assumed), *find_remarks(toolkit, needs, "")))


def _no_toolkit_on_pypi(needs: Needs, refused: Refused) -> Problem:
    offered, serving = needs.on_pypi(), needs.usable_releases()
    by_installer = serving and not set(serving).intersection(offered)
    would_do = f"{cuda_span(serving)} can be used for {needs.architecture_list} and {needs.subject}"
    return Problem.of(
        "no-toolkit-on-pypi/installer" if by_installer else "no-toolkit-on-pypi",
        refused="".join(f"; {problem.what}" for _, problem in refused),
        offered=cuda_span(offered),
        platform=needs.host.platform_tag,
        needed=would_do if serving else _no_release(needs).what,
        newest=serving[-1] if serving else "",
    )


def _not_installed(needs: Needs, release: str, reason: str, refused: Refused) -> Problem:
    offered = [one for one in needs.usable_releases() if one in needs.on_pypi()]
    pypi, instead = f"; PyPI has nvcc of {cuda_span(needs.on_pypi())} only", ""
    if needs.settings.cuda_from == SYSTEM and needs.installable_releases():
        pypi = "; cuda-from is system, so PyPI's packages are not used"
        instead = "leave cuda-from out, to use PyPI's packages, or "
    elif offered:
        pypi = f"; PyPI has {cuda_span(offered)}, untried with {needs.subject} and so taken on request only"
        instead = "-C cuda-from=pypi, to use PyPI's packages, or "
    elif needs.settings.cuda_from == SYSTEM:
        pypi = ""
    if other := _suggest_other_code(needs, refused):
        instead += f"{other}, or "
    wanted = f" for {needs.architecture_list}" if needs.architectures else ""
    package = (
        f"; the package cuda-toolkit-{release.replace('.', '-')}" if needs.host.system == "Linux" else ""
    )
    return Problem.of(
        "no-cuda-toolkit/refused" if refused else "no-cuda-toolkit",
        refused="; ".join(problem.what for _, problem in refused),
        span=cuda_span(needs.usable_releases()),
        purpose=wanted,
        pypi=pypi,
        release=release,
        reason=reason + package,
        alternative=f"{instead}{needs.without_toolkit}",
    )


def _no_release(needs: Needs) -> Problem:
    platform, listed = needs.host.platform_tag, needs.architecture_list
    if needs.host.musl:
        return Problem.of("no-cuda-for-platform/musl", musl=needs.host.musl)
    if not any(platform in release.platforms for release in read_toolkits()):
        return Problem.of("no-cuda-for-platform", platform=platform)
    if not read_toolkits().compiling_all(needs.architectures):
        return Problem.of(
            "no-release-compiles" if len(needs.architectures) > 1 else "no-release-compiles/one",
            architectures=listed,
            spans="; ".join(map(compiled_by, needs.architectures)),
        )
    cuda = needs.settings.entries.get("cuda")
    requested = f" in the range {cuda.text} ({cuda.origin})" if cuda else ""
    compiling = [release.version for release in needs.compiling_releases()]
    return Problem.of(
        "no-release-fits/range" if cuda else "no-release-fits",
        range=requested,
        subject=needs.subject,
        architectures=listed or "any GPU",
        platform=platform,
        span=cuda_span(compiling),
        needed=needs.takes_what,
        alternative=needs.without_release,
    )
