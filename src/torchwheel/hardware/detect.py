"""Which NVIDIA GPUs this machine has, by asking the driver's nvidia-smi."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from subprocess import CompletedProcess

from torchwheel.hardware.architecture import Architecture
from torchwheel.hardware.catalogue import gpus

_UNKNOWN_FIELD = "is not a valid field to query"
"""What an nvidia-smi says that does not know a field it was asked for."""

_TIMEOUT_SECONDS = 20.0
"""Without persistence mode the driver must first be loaded, which takes seconds for each GPU."""


@dataclass(frozen=True)
class DetectedGpu:
    """A GPU in this machine: the driver's name for it and its compute capability."""

    name: str
    compute_capability: Architecture


def detect_gpus(environment: Mapping[str, str]) -> tuple[DetectedGpu, ...]:
    """The GPUs of this machine in the driver's order.

    There are none if no nvidia-smi is on the ``PATH`` of ``environment``, or if it fails or takes too long.
    Where the driver cannot tell the compute capability, being too old or a Jetson's, the catalogue is asked
    for the name; a GPU that is not in it either is left out.
    """
    answer = _ask(environment, "name,compute_cap")
    if answer is not None and _UNKNOWN_FIELD in answer.stdout + answer.stderr:
        answer = _ask(environment, "name")
    if answer is None or answer.returncode != 0:
        return ()
    found = (_detected(row.strip()) for row in answer.stdout.splitlines())
    return tuple(gpu for gpu in found if gpu is not None)


def _ask(environment: Mapping[str, str], fields: str) -> CompletedProcess[str] | None:
    """What nvidia-smi answers; None if it is not there, cannot be started or takes too long."""

    path = environment.get("PATH", "")
    program = shutil.which("nvidia-smi", path=path) if path else None
    if program is None:
        return None
    try:
        return subprocess.run(
            [program, f"--query-gpu={fields}", "--format=csv,noheader"],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None


def _detected(row: str) -> DetectedGpu | None:
    name, _, capability_text = row.rpartition(",")
    capability = Architecture.from_dotted(capability_text.strip())
    if capability is not None:
        return DetectedGpu(name.strip(), capability)
    # Without a capability, the row is the name alone or ends in "[N/A]".
    name = name.strip() or row
    known = gpus().find(name)
    return DetectedGpu(name, known.compute_capability) if known is not None else None
