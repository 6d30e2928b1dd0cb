"""Which CUDA toolkit a build uses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torchwheel.errors import Problem
from torchwheel.findings import Finding, error, note, warning
from torchwheel.plan.cuda_problems import (
    assumed,
    from_pypi,
    none_installed,
    none_on_pypi,
    none_released,
    objections,
    untried,
)
from torchwheel.plan.cuda_support import CudaNeeds, packaged_releases, preferred_release, serving_releases
from torchwheel.pytorch.releases import CudaSupport
from torchwheel.settings import Layer
from torchwheel.toolkit.assumed import assumed_toolkit
from torchwheel.toolkit.model import Toolkit
from torchwheel.toolkit.sources import PYPI, PackagedToolkit, Source, choose_source


@dataclass(frozen=True)
class ToolkitChoice:
    """The toolkit of a build, which setting chose it, and what there is to say about it.

    Attributes:
        toolkit: the toolkit; one at the usual place is assumed where none was found, None if no release serves.
        layer: the layer of the deciding setting.
        origin: the deciding setting, in words.
        findings: errors if it cannot serve, a warning if it is untried, a note if it is assumed or PyPI's.
        requirements: what makes it, if it is made of PyPI's packages.
        site_packages: the folder that these are installed in; None if they are not yet.
    """

    toolkit: Toolkit | None
    layer: Layer
    origin: str
    findings: tuple[Finding, ...] = ()
    requirements: tuple[str, ...] = ()
    site_packages: Path | None = None


def choose_toolkit(
    needs: CudaNeeds,
    named: Toolkit | None,
    found: Sequence[Toolkit],
    packaged: Sequence[PackagedToolkit] = (),
    folder: Path = Path("toolkits"),
) -> ToolkitChoice:
    """Choose the CUDA toolkit.

    A named toolkit is taken or refused, never replaced. Else ``cuda-from`` decides: the first found one that serves
    is taken, those that PyTorch's release was built with before others; where none does, one of PyPI's packages.
    Where these cannot serve either, a release that would is assumed at its usual place, with an error if the plan
    is for this machine.

    Args:
        needs: what the toolkit must do.
        named: the toolkit at ``cuda-path``, if that is set.
        found: the toolkits on this machine, best first.
        packaged: the toolkits that installed packages make.
        folder: where toolkits are assembled of packages.
    """
    if named is not None:
        setting = needs.settings.entries["cuda-path"]
        problems = tuple(objections(named, needs, setting.origin))
        findings = tuple(error(problem) for problem in problems) or _untried(named, needs, setting.origin)
        return ToolkitChoice(named, setting.layer, setting.origin, findings)
    # Nobody can install anything on a machine that is only described, unless that is asked for.
    offered = needs.host.here or needs.settings.cuda_from == PYPI
    preferred = preferred_release(needs, packaged_releases(needs)) if offered else None
    release, reason = preferred or ("", "")
    source = choose_source(
        needs.settings.cuda_from,
        sorted(found, key=lambda t: needs.support(t.version) is not CudaSupport.ACCEPTED),
        sorted(packaged, key=lambda p: p.toolkit.version != release),
        [release] if release else [],
        lambda toolkit: tuple(objections(toolkit, needs, toolkit.origin)),
    )
    if source.toolkit is not None:
        return _chosen(needs, source.toolkit, source)
    if source.release:
        return _to_be_installed(needs, source, reason, folder)
    return _assume(needs, source.refused)


def _chosen(needs: CudaNeeds, toolkit: Toolkit, source: Source) -> ToolkitChoice:
    findings = _untried(toolkit, needs, toolkit.origin)
    if source.site_packages is None:
        return ToolkitChoice(toolkit, Layer.DEFAULT, f"found by {toolkit.origin}", findings)
    return ToolkitChoice(
        toolkit,
        needs.settings.entries["cuda-from"].layer,
        toolkit.origin,
        (note(from_pypi(toolkit, source.requirements, "", source.site_packages)), *findings),
        source.requirements,
        source.site_packages,
    )


def _to_be_installed(needs: CudaNeeds, source: Source, reason: str, folder: Path) -> ToolkitChoice:
    place = folder / f"cuda-{source.release}"
    toolkit = assumed_toolkit(source.release, needs.host.platform_tag, place)
    setting = needs.settings.entries["cuda-from"]
    said = note(from_pypi(toolkit, source.requirements, f"it is {reason}", None))
    return ToolkitChoice(
        replace(toolkit, origin="PyPI"),
        setting.layer,
        f"{setting.origin}: {reason}",
        (said, *_untried(toolkit, needs, "")),
        source.requirements,
    )


def _untried(toolkit: Toolkit, needs: CudaNeeds, origin: str) -> tuple[Finding, ...]:
    problem = untried(toolkit, needs, origin)
    return () if problem is None else (warning(problem),)


def _assume(needs: CudaNeeds, refused: Sequence[Problem]) -> ToolkitChoice:
    setting = needs.settings.get("cuda")
    layer = setting.layer if setting else Layer.DEFAULT
    if needs.settings.cuda_from == PYPI:
        asked = needs.settings.entries["cuda-from"]
        problem = none_on_pypi(needs, refused, asked.origin)
        return ToolkitChoice(None, asked.layer, asked.origin, (error(problem),))
    preferred = preferred_release(needs, serving_releases(needs))
    if preferred is None:
        origin = setting.origin if setting else "no CUDA release serves"
        return ToolkitChoice(None, layer, origin, (error(none_released(needs)),))
    version, reason = preferred
    toolkit = assumed_toolkit(version, needs.host.platform_tag)
    origin = f"{reason}, in the range {setting.text} ({setting.origin})" if setting else reason
    if needs.host.here:
        return ToolkitChoice(
            toolkit, layer, origin, (error(none_installed(needs, version, reason, refused)),)
        )
    findings = (note(assumed(toolkit, origin)), *_untried(toolkit, needs, ""))
    return ToolkitChoice(toolkit, layer, origin, findings)
