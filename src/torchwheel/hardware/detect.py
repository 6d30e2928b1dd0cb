"""Detect this machine's NVIDIA GPUs with the driver's nvidia-smi."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torchwheel.hardware.architecture import Architecture
from torchwheel.hardware.gpu_catalogue import read_gpus
from torchwheel.host.programs import SECONDS_TO_ANSWER, NoAnswer, ask_program, find_program

_UNKNOWN_FIELD = "is not a valid field to query"
"""nvidia-smi's message about a field that it does not have."""

_NO_DEVICES = "No devices were found"
_SHOWN = 300
"""Characters of its error message to quote: two sentences name the driver and the fix."""

_MOST_GPUS = 64
"""Lines of its output that are read; no machine has so many GPUs."""

_TIMEOUT_SECONDS = 20.0
"""Without persistence mode the driver is loaded first, which takes seconds for each GPU."""


@dataclass(frozen=True)
class DetectedGpu:
    """A GPU in this machine: the driver's name for it and its compute capability."""

    name: str
    compute_capability: Architecture


def detect_gpus(environment: Mapping[str, str]) -> tuple[DetectedGpu, ...]:
    """The GPUs of this machine in the driver's order.

    Raises:
        NoAnswer: as :func:`ask_gpus`.
    """
    return ask_gpus(environment, _TIMEOUT_SECONDS)


def ask_gpus(environment: Mapping[str, str], seconds: float = SECONDS_TO_ANSWER) -> tuple[DetectedGpu, ...]:
    """The GPUs of this machine in the driver's order.

    Empty without nvidia-smi on the ``PATH`` of ``environment``. If the driver does not report the compute capability,
    because it is old or a Jetson's, the GPU is looked up in the catalogue by name, and left out if it is not there.

    Raises:
        NoAnswer: nvidia-smi takes longer than ``seconds``, or fails.
    """
    path = environment.get("PATH", "")
    program = find_program("nvidia-smi", path) if path else None
    if program is None:
        return ()
    for fields in ("name,compute_cap", "name"):
        answer = ask_program(
            [program, f"--query-gpu={fields}", "--format=csv,noheader"], environment, seconds
        )
        if _UNKNOWN_FIELD not in answer.stdout + answer.stderr:
            break
    said = answer.stdout + answer.stderr
    if answer.returncode != 0 and _NO_DEVICES not in said:
        raise NoAnswer(
            f'nvidia-smi ended with status {answer.returncode}: "{" ".join(said.split())[:_SHOWN]}"'
        )
    found = (_parse_row(row.strip()) for row in answer.stdout.splitlines()[:_MOST_GPUS])
    return tuple(gpu for gpu in found if gpu is not None)


def _parse_row(row: str) -> DetectedGpu | None:
    name, _, capability_text = row.rpartition(",")
    capability = Architecture.from_dotted(capability_text.strip())
    if capability is not None:
        return DetectedGpu(name.strip(), capability)
    # Without a capability, the row is only the name or ends in "[N/A]".
    name = name.strip() or row
    known = read_gpus().find(name)
    return DetectedGpu(name, known.compute_capability) if known is not None else None
