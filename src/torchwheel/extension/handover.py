"""Exchange data between a hook and the setup.py or CMake that it runs: settings in, the wheel's record and errors out.

An environment variable connects the torchwheel in that process to the hook.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

from torchwheel.extension.extension_plan import ExtensionPlan, ExtensionProject
from torchwheel.extension.extension_survey import ARCH_LIST, read_extension_project
from torchwheel.extension.wheel_record import (
    WheelRecord,
    combine_records,
    read_wheel_record,
    record_of,
    write_wheel_record,
)
from torchwheel.host.this import with_home_and_path
from torchwheel.plan.build_plan import hash_facts
from torchwheel.reporting.errors import EXIT_FAILED, Problem, TorchwheelError, report_errors, traceback_wanted
from torchwheel.reporting.messages import settings_written_as
from torchwheel.settings.config_settings import ConfigSettings
from torchwheel.settings.known_keys import all_keys
from torchwheel.survey import BuildRequest
from torchwheel.system.files import atomic_write
from torchwheel.system.paths import find_below, is_file

# Without torchwheel's prefix because it is not a user's setting.
VARIABLE = "_TORCHWHEEL_HOOK"

CUDA_HOME = "CUDA_HOME"

# An exit status is this and the number of the signal.
_SIGNALS = 128

_RECORD, _PROBLEMS = ".wheel.json", "problems.json"


@dataclass(frozen=True)
class Handover:
    """A hook's data for its child processes."""

    project: Path
    config_settings: ConfigSettings
    folder: Path | None

    def variables(self) -> dict[str, str]:
        folder = None if self.folder is None else str(self.folder)
        content = [str(self.project), dict(self.config_settings), folder]
        return {VARIABLE: json.dumps(content, sort_keys=True)}

    def record(self) -> WheelRecord | None:
        """The planned wheel, of which CMake plans each extension alone; None without extensions of PyTorch."""
        files = find_below(self.folder, f"*{_RECORD}") if self.folder else []
        return combine_records([read_wheel_record(file) for file in files]) if files else None

    def problems(self) -> tuple[Problem, ...]:
        """What stopped torchwheel in the finished process."""
        file = self.folder and self.folder / _PROBLEMS
        if not file or not is_file(file):
            return ()
        return tuple(Problem(**one) for one in json.loads(file.read_text(encoding="utf-8")))


def read_handover(environment: Mapping[str, str]) -> Handover | None:
    """Read the data of the hook that started this process; None without one."""
    if not (text := environment.get(VARIABLE)):
        return None
    project, config_settings, folder = json.loads(text)
    return Handover(Path(project), config_settings, None if folder is None else Path(folder))


def handover_here() -> Handover | None:
    """The same, but only for the project in the current folder, because other builds inherit the variable."""
    hook = read_handover(os.environ)
    return hook if hook is not None and hook.project == Path.cwd() else None


def record_plan(plan: ExtensionPlan, hook: Handover | None) -> None:
    if hook is not None and hook.folder is not None:
        write_wheel_record(hook.folder / f"{hash_facts([plan.below])}{_RECORD}", record_of(plan))


def record_problems(error: TorchwheelError, environment: Mapping[str, str]) -> bool:
    """Record the problems for the hook that started this process; returns whether there is one."""
    hook = read_handover(environment)
    if hook is None or hook.folder is None:
        return False
    atomic_write(hook.folder / _PROBLEMS, json.dumps([asdict(problem) for problem in error.problems]))
    return True


def as_variable(name: str, entry: str) -> str:
    """Spell a setting for builds that do not read ``-C``: ``TORCHWHEEL_TARGET=``."""
    key = all_keys().get(name)
    if key is None or key.table is not bool(entry):
        return ""
    return f"{key.variable}={entry + '=' if key.table else ''}"


class StoppedBuild(SystemExit, RuntimeError):
    """The end of a setup.py after an error that was reported.

    torch.utils.cpp_extension raises a RuntimeError, which some projects catch, to go on without their extensions.
    """


@contextmanager
def errors_handed_over() -> Iterator[None]:
    """Pass errors to the hook that started this process, or print them without one.

    setuptools' own backend does not read ``-C``, so without such a hook remedies name variables.

    Raises:
        StoppedBuild: after an error; after a signal its base, SystemExit.
    """
    hook = handover_here()
    config_settings = hook.config_settings if hook else None
    try:
        written = settings_written_as(as_variable) if hook is None else nullcontext()
        with written, report_errors(config_settings):
            try:
                yield
            except TorchwheelError as error:
                if record_problems(error, os.environ) and not traceback_wanted(config_settings):
                    raise SystemExit(EXIT_FAILED) from None
                raise
    except SystemExit as end:
        if isinstance(end.code, int) and end.code < _SIGNALS:
            raise StoppedBuild(end.code) from None
        raise


def project_here() -> ExtensionProject:
    """The project in the current folder, with the settings of the hook that started this process.

    It is read once, unless the folder or the environment changes: setup.py files change both.
    """
    # setuptools sets PLAT for itself while it runs.
    variables = {name: value for name, value in os.environ.items() if name != "PLAT"}
    for name, (shown, own) in _SHOWN.items():
        if variables.get(name) == shown:
            del variables[name]
            variables |= own
    return _read_project(Path.cwd(), tuple(sorted(variables.items())))


_SHOWN: dict[str, tuple[str, Mapping[str, str]]] = {}
"""A variable -> its value for a setup.py, and the user's own."""


def show_variable(name: str, value: str) -> None:
    """Set a variable for a setup.py and for PyTorch's own functions; torchwheel reads the user's own."""
    hide_variable(name)
    _SHOWN[name] = value, {name: os.environ[name]} if name in os.environ else {}
    os.environ[name] = value


def hide_variable(name: str) -> None:
    shown, own = _SHOWN.pop(name, ("", {}))
    if shown and os.environ.get(name) == shown:
        del os.environ[name]
        os.environ |= own


def show_target() -> None:
    """Set ``TORCH_CUDA_ARCH_LIST`` for a setup.py to the requested target or ``arch``.

    Some choose their sources or flags by it. Wrong settings are reported when the extensions are planned.
    """
    try:
        settings = project_here().settings
    except TorchwheelError:
        return
    if settings.arch is not None and not settings.entries["arch"].ambient:
        show_variable(ARCH_LIST, str(settings.arch))


def hide_target() -> None:
    """Undo what a setup.py was shown."""
    for name in tuple(_SHOWN):
        hide_variable(name)


@lru_cache(maxsize=1)
def _read_project(folder: Path, variables: tuple[tuple[str, str], ...]) -> ExtensionProject:
    hook = handover_here()
    settings = hook.config_settings if hook else {}
    return read_extension_project(BuildRequest(folder, settings, with_home_and_path(dict(variables))))
