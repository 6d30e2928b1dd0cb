"""Whether the device code is for the GPU that was named."""

from __future__ import annotations

from torchwheel.hardware.runs_on import verdict
from torchwheel.preflight.build_matrix import Combination
from torchwheel.preflight.registry import Answer, Broken, Fine, checks_combination


@checks_combination("target-cannot-run")
def runs_on_targets(combination: Combination) -> Answer:
    """An ``arch`` that was set beside the target may be for quite another GPU."""
    code, gpus = combination.architectures, combination.target_gpus
    if code is None or not gpus:
        return None
    for gpu in gpus:
        answer = verdict(code.targets, gpu.compute_capability)
        if not answer.how.runs:
            values = {
                "architectures": str(code),
                "gpu": gpu.title,
                "capability": gpu.compute_capability.dotted,
                "reason": answer.sentence,
            }
            return Broken(values, gpu.compute_capability.dotted, combination.arch_origin)
    return Fine({"architectures": str(code), "gpus": ", ".join(gpu.title for gpu in gpus)})
