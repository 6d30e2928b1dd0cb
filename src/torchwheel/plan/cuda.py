"""Which CUDA toolkit a build uses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torchwheel.errors import Problem
from torchwheel.findings import Finding, error, note, warning
from torchwheel.plan.cuda_problems import assumed, none_installed, none_released, objections, untried
from torchwheel.plan.cuda_support import CudaNeeds, preferred_release
from torchwheel.pytorch.releases import CudaSupport
from torchwheel.settings import Layer
from torchwheel.toolkit.assumed import assumed_toolkit
from torchwheel.toolkit.model import Toolkit


@dataclass(frozen=True)
class ToolkitChoice:
    """The toolkit of a build, which setting chose it, and what there is to say about it.

    Attributes:
        toolkit: the toolkit; one at the usual place is assumed where none was found, None if no release serves.
        layer: the layer of the deciding setting.
        origin: the deciding setting, in words.
        findings: errors if it cannot serve, a warning if it is untried, a note if it is assumed.
    """

    toolkit: Toolkit | None
    layer: Layer
    origin: str
    findings: tuple[Finding, ...] = ()


def choose_toolkit(needs: CudaNeeds, named: Toolkit | None, found: Sequence[Toolkit]) -> ToolkitChoice:
    """Choose the CUDA toolkit.

    A named toolkit is taken or refused, never replaced. Else the first found one that serves is taken; those
    that PyTorch's release was built with come before others. Else a release that would serve is assumed at its
    usual place, with an error if the plan is for this machine.

    Args:
        needs: what the toolkit must do.
        named: the toolkit at ``cuda-path``, if that is set.
        found: the toolkits on this machine, best first.
    """
    if named is not None:
        setting = needs.settings.entries["cuda-path"]
        problems = tuple(objections(named, needs, setting.origin))
        findings = tuple(error(problem) for problem in problems) or _untried(named, needs, setting.origin)
        return ToolkitChoice(named, setting.layer, setting.origin, findings)
    refused: list[Problem] = []
    for toolkit in sorted(found, key=lambda t: needs.support(t.version) is not CudaSupport.ACCEPTED):
        problems = tuple(objections(toolkit, needs, toolkit.origin))
        if not problems:
            origin = f"found by {toolkit.origin}"
            return ToolkitChoice(toolkit, Layer.DEFAULT, origin, _untried(toolkit, needs, toolkit.origin))
        refused.append(problems[0])
    return _assume(needs, refused)


def _untried(toolkit: Toolkit, needs: CudaNeeds, origin: str) -> tuple[Finding, ...]:
    problem = untried(toolkit, needs, origin)
    return () if problem is None else (warning(problem),)


def _assume(needs: CudaNeeds, refused: Sequence[Problem]) -> ToolkitChoice:
    setting = needs.settings.get("cuda")
    layer = setting.layer if setting else Layer.DEFAULT
    preferred = preferred_release(needs)
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
