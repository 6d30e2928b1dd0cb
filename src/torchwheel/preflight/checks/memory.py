"""Memory against compile jobs."""

from __future__ import annotations

from torchwheel.host.jobs import job_figures, jobs_for
from torchwheel.preflight.context import Scene
from torchwheel.preflight.formatting import counted, gib
from torchwheel.preflight.registry import Answer, Broken, Fine, checks_machine


def _has_attention(scene: Scene) -> bool:
    return scene.plan.jobs.flash_attention is not None and scene.mentions("USE_FLASH_ATTENTION")


@checks_machine("too-many-jobs-for-memory")
def jobs_fit(scene: Scene) -> Answer:
    """More jobs were asked for than memory allows."""
    plan, host = scene.plan, scene.host.host
    if host.memory_bytes is None:
        return None
    code = plan.architectures
    fitting = jobs_for(
        memory_bytes=host.memory_bytes,
        cores=None,
        cuda=code is not None,
        flash_attention=_has_attention(scene),
        architectures=len(code.architectures) if code else 0,
    )
    asked = plan.settings.jobs
    if asked is None or asked <= fitting.max_jobs:
        return Fine({"reason": fitting.reason})
    return Broken({"jobs": counted(asked, "job"), "reason": fitting.reason}, str(fitting.max_jobs))


@checks_machine("memory-too-small")
def one_job_fits(scene: Scene) -> Answer:
    """Even a single job of the largest kind may need more than there is."""
    memory, code = scene.host.host.memory_bytes, scene.plan.architectures
    if memory is None:
        return None
    figures = job_figures()
    kind, needed, remedy = "a C++ file", figures.cxx, "add swap space"
    if code is not None and _has_attention(scene):
        several = len(code.architectures) > 1
        kind, needed = "a flash attention kernel", figures.attention_several if several else figures.attention
        remedy = "-C disable=flash-attention"
    elif code is not None:
        kind, needed, remedy = (
            "a CUDA file",
            figures.cuda,
            "-C arch= with one architecture, or add swap space",
        )
    if memory >= needed:
        return Fine({"memory": gib(memory)})
    return Broken({"memory": gib(memory), "kind": kind, "needed": gib(needed)}, remedy)
