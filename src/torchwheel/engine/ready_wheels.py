"""Wheels that exist: at places that the user names, also for this machine, and in the official index, by pip."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.tags import sys_tags

from torchwheel.engine.cache import stored_wheels
from torchwheel.engine.process import ProcessFailed, last_lines, run_streaming
from torchwheel.hardware.gpu_catalogue import NamedGpu, detect_gpus
from torchwheel.host.programs import NoAnswer
from torchwheel.host.this import this_host
from torchwheel.index.catalogue import SiteWheel, path_of
from torchwheel.index.choice import Machine, choose_wheel
from torchwheel.index.remote import fetched_wheel, read_site
from torchwheel.plan.build_plan import Plan
from torchwheel.preflight.facts import is_l4t
from torchwheel.preflight.this_machine import ask_driver
from torchwheel.reporting.errors import TorchwheelError, refusal
from torchwheel.reporting.masking import mask
from torchwheel.reporting.terminal import join_items, say
from torchwheel.system.files import cannot_write, folder_beside, hand_over
from torchwheel.system.paths import is_file
from torchwheel.toolkit.cuda_releases import needed_driver
from torchwheel.versions import at_least
from torchwheel.wheel.inspection import inspect, judge_suitability, named_gpus

_MOST_MEMORY = 2 << 30
"""pip reads a whole page of an index, and uses several times its size."""

_MOST_FILE = 16 << 30
"""Far above the size of any PyTorch wheel."""

# `python -c` imports from the current folder first, where a pip.py may be, so its empty entry is removed.
_LIMITED_PIP = """\
import sys
sys.path[:] = filter(None, sys.path)
import runpy
try:
    import resource
    for name, most in (("RLIMIT_DATA", {memory}), ("RLIMIT_FSIZE", {file})):
        resource.setrlimit(getattr(resource, name), (most, most))
except (ImportError, OSError, ValueError):
    pass  # Windows has none, and a lower one stays
sys.argv[0] = "pip"
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""


@dataclass(frozen=True)
class ReadyWheel:
    """A wheel that was chosen for a machine; the reasons also say why the places before it were passed over."""

    reasons: tuple[str, ...]
    gpus: tuple[NamedGpu, ...]
    place: Path | str
    wheel: SiteWheel


def choose_ready(
    wanted: Requirement, target: str | None, places: Sequence[Path | str], environment: dict[str, str]
) -> ReadyWheel:
    """Ask the places in their order for a wheel that runs here.

    ``target`` is GPUs, ``native`` or ``cpu``; None for the GPUs of this machine, and the CPU where it has none.
    """
    gpus = _find_gpus(target, environment)
    machine = _describe_machine(gpus, environment)
    reasons: list[str] = []
    # Not the wheel store, which answers for a tree: a name there may be another project's.
    for place in places:
        wheels = read_site(place)
        # A named GPU needs code for it.
        choice = choose_wheel(wheels, wanted, machine, without_gpu=not gpus or target is None)
        if choice.wheel is not None:
            return ReadyWheel((*reasons, *choice.reasons), gpus, place, choice.wheel)
        reasons += [f"{mask(str(place))}: {why}" for why in choice.reasons]
    device = join_items([gpu.name for gpu in gpus]) or "the CPU"
    raise refusal("no-wheel-for-machine", wanted=wanted, machine=device, why="; ".join(reasons))


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
    host, driver = this_host(), ""
    with suppress(NoAnswer):
        driver = ask_driver(environment)

    def takes_cuda(cuda: str) -> bool:
        if not driver or is_l4t(driver):
            return True
        needed = (needed_driver(cuda, gpu.compute_capability, host.system) for gpu in gpus)
        return all(one is None or at_least(driver, one) for one in needed)

    tags = {tag: place for place, tag in enumerate(sys_tags())}
    return Machine(gpus, host.python.version, tags, takes_cuda)


def candidate_wheels(plan: Plan, places: Iterable[Path | str]) -> Iterator[Path]:
    """Yield wheels with a plan's wheel name: from the wheel store, then from folders and sites in turn."""
    yield from stored_wheels(plan.folders.cache, plan.wheel_name)
    for place in places:
        if isinstance(place, Path):
            for wheel in (place / plan.wheel_name, place / path_of(plan.wheel_name)):
                if is_file(wheel):
                    yield wheel
        else:
            yield from _of_site(plan, place)


def _of_site(plan: Plan, place: str) -> Iterator[Path]:
    try:
        for one in (one for one in read_site(place) if one.file.name == plan.wheel_name):
            folder = plan.folders.cache / "downloads"
            with fetched_wheel(place, one.file, folder) as wheel:
                yield wheel.replace(folder / wheel.name)
            return
        say(f"{mask(place)} has no {plan.wheel_name}")
    except TorchwheelError as failure:
        say(f"no wheel came from {mask(place)}: {failure.problems[0].what}")


def fetch_wheel(
    cache: Path,
    arguments: tuple[str, ...],
    folder: Path,
    environment: Mapping[str, str],
    check: Callable[[Path], None] = lambda _wheel: None,
) -> Path:
    """Download a wheel with pip, without its dependencies; ``check`` raises for a wrong one of a further index."""
    folder.mkdir(parents=True, exist_ok=True)
    log = cache / "get.log"
    start = log.stat().st_size if is_file(log) else 0
    program = _LIMITED_PIP.format(memory=_MOST_MEMORY, file=_MOST_FILE)
    # Only wheels, because pip runs the code of an sdist to read its metadata.
    options = ("--disable-pip-version-check", "download", "--no-deps", "--only-binary", ":all:")
    with folder_beside(folder / "torchwheel-get") as temporary:
        try:
            run_streaming(
                [sys.executable, "-c", program, *options, "-d", str(temporary), *arguments],
                folder=Path.cwd(),
                # A warning that is an error for the user's programs would end older releases of pip.
                environment={**environment, "PYTHONWARNINGS": ""},
                log=log,
            )
        except ProcessFailed as failure:
            raise _not_fetched(arguments, log, start) from failure
        wheels = list(temporary.glob("*.whl"))
        if len(wheels) != 1:
            raise _not_fetched(arguments, log, start)
        check(wheels[0])
        return wheels[0].replace(folder / wheels[0].name)


def _not_fetched(arguments: tuple[str, ...], log: Path, start: int) -> TorchwheelError:
    requirement, *index = arguments
    why = last_lines(log, start, first="ERROR:")
    return refusal("wheel-not-fetched", origin=" ".join(index), requirement=requirement, log=log, why=why)
