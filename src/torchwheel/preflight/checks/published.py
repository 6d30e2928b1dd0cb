"""Whether building is needed at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torchwheel.hardware.architecture import Architecture
from torchwheel.hardware.runs_on import HowItRuns
from torchwheel.preflight.answer import Answer, Broken, Fine, checks_machine
from torchwheel.preflight.scene import Scene
from torchwheel.preflight.versions import at_least
from torchwheel.preflight.wording import listed
from torchwheel.pytorch.published import RunningBuild, published_builds_that_run
from torchwheel.settings import Layer
from torchwheel.toolkit.catalogue import toolkits

_GOOD_ENOUGH = (HowItRuns.NATIVE, HowItRuns.FAMILY, HowItRuns.MINOR_VERSION)


@dataclass(frozen=True)
class _Candidate:
    """An official build with how it runs on each of the GPUs; the worst of them counts."""

    runs: tuple[RunningBuild, ...]

    @property
    def worst(self) -> RunningBuild:
        return max(self.runs, key=lambda running: _GOOD_ENOUGH.index(running.verdict.how))


@checks_machine("need-not-build")
def need_not_build(scene: Scene) -> Answer:
    """An official build runs on the target natively, or by minor-version compatibility."""
    combination, python = scene.combination, scene.host.host.python
    release, wanted = combination.pytorch, _capabilities(scene)
    if release is None or not wanted:
        return None
    gpus = listed(
        [gpu.title for gpu in combination.target_gpus] or [str(capability) for capability in wanted]
    )
    values = {
        "version": release.version,
        "gpus": gpus,
        "python": python.minor_version,
        "platform": combination.platform_tag,
    }
    best = _best(scene, wanted)
    if best is None:
        return Fine(values)
    running = best.worst
    note = running.command.index_note
    filled = {
        **values,
        "build": f"{running.build.label} build",
        "how": running.verdict.sentence,
        "gains": "; ".join(_gains(scene, running)),
        "command": running.command.text + (f"   ({note})" if note else ""),
    }
    return Broken(filled, nearest=running.command.text)


def _capabilities(scene: Scene) -> tuple[Architecture, ...]:
    """The compute capabilities that the wheel must run on."""
    combination = scene.combination
    if combination.target_gpus:
        return tuple(dict.fromkeys(gpu.compute_capability for gpu in combination.target_gpus))
    code = combination.architectures
    return tuple(dict.fromkeys(a.capability for a in code.architectures)) if code else ()


def _best(scene: Scene, wanted: Sequence[Architecture]) -> _Candidate | None:
    release, python = scene.combination.pytorch, scene.host.host.python
    if release is None:
        return None
    by_label: dict[str, list[RunningBuild]] = {}
    for capability in wanted:
        for running in published_builds_that_run(
            release, scene.combination.platform_tag, python.abi_tag, capability
        ):
            if running.verdict.how in _GOOD_ENOUGH and _driver_runs(scene, running.build.cuda):
                by_label.setdefault(running.build.label, []).append(running)
    candidates = [_Candidate(tuple(runs)) for runs in by_label.values() if len(runs) == len(wanted)]
    return min(
        candidates, key=lambda candidate: _GOOD_ENOUGH.index(candidate.worst.verdict.how), default=None
    )


def _driver_runs(scene: Scene, cuda: str | None) -> bool:
    """Whether the driver here runs programs of a CUDA; yes where the driver is not known."""
    release = toolkits().release(cuda) if cuda else None
    if not scene.host.driver or release is None:
        return True
    windows = scene.combination.system == "Windows"
    return at_least(
        scene.host.driver,
        release.minor_version_driver_windows if windows else release.minor_version_driver_linux,
    )


def _gains(scene: Scene, running: RunningBuild) -> Iterator[str]:
    plan, build = scene.plan, running.build
    if running.verdict.how is not HowItRuns.NATIVE:
        yield f"machine code for {running.verdict.gpu.sm} itself"
    published, own = build.code, plan.architectures
    if published is not None and own is not None and len(own.targets) < len(published.targets):
        yield f"a smaller wheel: code for {listed([str(a) for a in own.architectures])} alone, not for {published}"
    if plan.toolkit is not None and plan.toolkit.version != build.cuda:
        yield f"CUDA {plan.toolkit.version} instead of {build.cuda}"
    chosen = [name for name, setting in plan.settings.defines.items() if setting.layer >= Layer.PROJECT]
    own_options = [name for name in chosen if name != "USE_CUDA"]
    if own_options:
        yield f"your own options: {listed(own_options)}"
    if plan.tree.release_tag is None:
        yield "this tree's own source, which is not on a release tag"
    else:
        yield "whatever you changed in the source"
