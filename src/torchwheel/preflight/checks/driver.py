"""The driver and the GPUs of this machine, where the wheel is to run on it."""

from __future__ import annotations

from torchwheel.hardware.arch import ArchitectureList
from torchwheel.hardware.detect import DetectedGpu
from torchwheel.hardware.runs_on import HowItRuns, Verdict, verdict
from torchwheel.preflight.context import Scene
from torchwheel.preflight.formatting import listed
from torchwheel.preflight.registry import Answer, Broken, Fine, checks_machine
from torchwheel.versions import at_least


def _verdicts(scene: Scene) -> tuple[tuple[DetectedGpu, Verdict], ...]:
    code: ArchitectureList | None = scene.plan.architectures
    if code is None:
        return ()
    return tuple((gpu, verdict(code.targets, gpu.compute_capability)) for gpu in scene.host.gpus or ())


@checks_machine("architecture-does-not-run-here")
def runs_here(scene: Scene) -> Answer:
    """Building for another machine is normal, so this only warns."""
    answers = _verdicts(scene)
    if not answers:
        return None
    able = [gpu.name for gpu, answer in answers if answer.how.runs]
    if able:
        return Fine({"gpus": listed(list(dict.fromkeys(able)))})
    values = {"gpus": listed([gpu.name for gpu, _ in answers]), "reason": answers[0][1].sentence}
    return Broken(values, answers[0][0].compute_capability.dotted)


@checks_machine("driver-too-old")
def driver_runs(scene: Scene) -> Answer:
    """Minor-version compatibility: one least driver for each major version of CUDA."""
    release, driver = scene.combination.toolkit, scene.host.driver
    if release is None or not driver:
        return None
    windows = scene.host.host.system == "Windows"
    needed = release.minor_version_driver_windows if windows else release.minor_version_driver_linux
    values = {"driver": driver, "version": release.version, "needed": f"{needed} or later"}
    return Fine(values) if at_least(driver, needed) else Broken(values, needed)


@checks_machine("driver-too-old-for-ptx")
def driver_compiles_ptx(scene: Scene) -> Answer:
    """Only where a GPU here would run PTX: that needs a driver as new as the toolkit."""
    release, driver = scene.combination.toolkit, scene.host.driver
    by_ptx = [gpu for gpu, answer in _verdicts(scene) if answer.how is HowItRuns.PTX_JIT]
    if release is None or not driver or not by_ptx:
        return None
    needed = release.driver_windows if scene.host.host.system == "Windows" else release.driver_linux
    if needed is None:
        return None
    values = {
        "driver": driver,
        "version": release.version,
        "needed": f"{needed} or later",
        "architecture": by_ptx[0].compute_capability.dotted,
    }
    return Fine(values) if at_least(driver, needed) else Broken(values, needed)
