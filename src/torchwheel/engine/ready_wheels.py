"""Get a wheel for this machine without a source tree: from sites, or an official one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.tags import sys_tags

from torchwheel.hardware.gpu_catalogue import NamedGpu, detect_gpus
from torchwheel.host.programs import NoAnswer
from torchwheel.host.this import this_host
from torchwheel.index.catalogue import Machine, SiteWheel, choose_wheel
from torchwheel.index.remote import fetched_wheel, read_site
from torchwheel.preflight.facts import is_l4t
from torchwheel.preflight.this_machine import ask_driver as ask_driver
from torchwheel.reporting.errors import TorchwheelError, refusal
from torchwheel.reporting.masking import mask
from torchwheel.reporting.terminal import join_items
from torchwheel.system.files import cannot_write, hand_over
from torchwheel.toolkit.cuda_releases import needed_driver
from torchwheel.versions import at_least
from torchwheel.wheel.inspection import inspect, judge_suitability, named_gpus


@dataclass(frozen=True)
class ReadyWheel:
    """A wheel that was chosen for a machine.

    Attributes:
        reasons: why this one, after why the places before it were passed over.
    """

    reasons: tuple[str, ...]
    gpus: tuple[NamedGpu, ...]
    place: Path | str
    wheel: SiteWheel


def choose_ready(
    wanted: Requirement, target: str | None, places: Sequence[Path | str], environment: dict[str, str]
) -> ReadyWheel:
    """Ask the places in their order for a wheel that runs here.

    Args:
        target: GPUs, ``native`` or ``cpu``; None for the GPUs of this machine, and the CPU where it has none.
    """
    gpus = _find_gpus(target, environment)
    machine = _describe_machine(gpus, environment)
    reasons: list[str] = []
    # Not the wheel store, which answers for a tree: a name there may be another project's.
    for place in places:
        if (wheels := read_site(place)) is None:
            raise refusal("not-a-site", origin=place)
        # A named GPU needs code for it.
        choice = choose_wheel(wheels, wanted, machine, without_gpu=not gpus or target is None)
        if choice.wheel is not None:
            return ReadyWheel((*reasons, *choice.reasons), gpus, place, choice.wheel)
        reasons += [f"{mask(str(place))}: {why}" for why in choice.reasons]
    raise refusal(
        "no-wheel-for-machine",
        wanted=wanted,
        machine=join_items([gpu.name for gpu in gpus]) or "the CPU",
        why="; ".join(reasons),
    )


def fetch_ready(choice: ReadyWheel, output: Path, environment: Mapping[str, str]) -> Path:
    """Put the wheel into ``output``, once it is the one that was listed and runs on every GPU."""
    target = output / choice.wheel.file.name
    try:
        with fetched_wheel(choice.place, choice.wheel.file, output) as wheel:
            _require(choice, wheel)
            hand_over(wheel, target)
    except OSError as error:
        raise TorchwheelError(cannot_write(target, error)) from error
    return target


def _require(choice: ReadyWheel, wheel: Path) -> None:
    """Refuse a wheel whose files are not its own, or whose code does not run on the GPUs that it was chosen for."""
    found = inspect(wheel)
    if not found.is_intact:
        raise refusal("wheel-not-copied", origin=wheel.name, wheel=wheel.name, reason=found.remarks[0])
    if not choice.wheel.code:
        return
    for gpu in choice.gpus:
        if not (answer := judge_suitability(found, gpu, all_needed=True)).how.runs:
            raise refusal("wheel-not-copied", origin=wheel.name, wheel=wheel.name, reason=answer.reason)


def _find_gpus(target: str | None, environment: dict[str, str]) -> tuple[NamedGpu, ...]:
    if target is not None:
        names = [name.strip() for name in target.split(",") if name.strip()]
        return () if names == ["cpu"] else named_gpus(names, environment)
    try:
        return detect_gpus(environment)
    except NoAnswer as failure:
        raise refusal("no-gpu-found/ready", origin="nvidia-smi", why=failure) from None


def _describe_machine(gpus: tuple[NamedGpu, ...], environment: Mapping[str, str]) -> Machine:
    host = this_host()
    try:
        driver = ask_driver(environment)
    except NoAnswer:
        driver = ""

    def takes_cuda(cuda: str) -> bool:
        if not driver or is_l4t(driver):
            return True
        needed = (needed_driver(cuda, gpu.compute_capability, host.system) for gpu in gpus)
        return all(one is None or at_least(driver, one) for one in needed)

    tags = {tag: place for place, tag in enumerate(sys_tags())}
    return Machine(gpus, host.python.version, tags, takes_cuda)
