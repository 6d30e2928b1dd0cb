"""Fetch a wheel: from a place that the user names, or with pip, limited in memory, from the official index."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from torchwheel.engine import store
from torchwheel.engine.failure import last_lines
from torchwheel.engine.process import ProcessFailed, run_streaming
from torchwheel.index.catalogue import path_of
from torchwheel.index.remote import fetched_wheel, read_site
from torchwheel.plan.build_plan import Plan
from torchwheel.reporting.errors import Problem, TorchwheelError, refusal
from torchwheel.reporting.masking import mask
from torchwheel.reporting.terminal import say
from torchwheel.system.files import folder_beside
from torchwheel.system.paths import is_file

_LOG = "get.log"
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


def candidate_wheels(plan: Plan, places: Iterable[Path | str]) -> Iterator[Path]:
    """Yield wheels with a plan's wheel name: from the wheel store, then from folders and sites in turn."""
    yield from store.find_by_name(plan.folders.cache, plan.wheel_name)
    for place in places:
        if isinstance(place, Path):
            for wheel in (place / plan.wheel_name, place / path_of(plan.wheel_name)):
                if is_file(wheel):
                    yield wheel
        else:
            yield from _of_site(plan, place)


def _of_site(plan: Plan, place: str) -> Iterator[Path]:
    """The wheel of a site that has the name, in torchwheel's cache."""
    try:
        if (listed := read_site(place)) is None:
            raise refusal("not-a-site", origin=place)
        for one in (one for one in listed if one.file.name == plan.wheel_name):
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
    """Download a wheel with pip, without its dependencies.

    Args:
        check: raises for a wrong wheel, because find-links and further indexes in pip's settings may have others.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log = cache / _LOG
    log.parent.mkdir(parents=True, exist_ok=True)
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
            raise TorchwheelError(_not_fetched(arguments, log, failure.start)) from failure
        wheels = list(temporary.glob("*.whl"))
        if len(wheels) != 1:
            raise TorchwheelError(_not_fetched(arguments, log, start))
        check(wheels[0])
        return wheels[0].replace(folder / wheels[0].name)


def _not_fetched(arguments: tuple[str, ...], log: Path, start: int) -> Problem:
    why = last_lines(log, start, first="ERROR:")
    return Problem.of(
        "wheel-not-fetched", origin=" ".join(arguments[1:]), requirement=arguments[0], log=log, why=why
    )
