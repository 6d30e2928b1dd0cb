"""Wrap scikit-build-core's hooks: report their errors as problems, without a traceback.

This runs in the process of the inner backend.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import scikit_build_core.build as backend
from scikit_build_core.settings.skbuild_read_settings import SettingsReader

from torchwheel.reporting.errors import Problem, TorchwheelError, refusal, traceback_wanted


def __getattr__(name: str) -> Any:
    """Return scikit-build-core's object of that name; hooks are wrapped to report their errors."""
    found = getattr(backend, name)
    return partial(_report_errors, found) if callable(found) else found


def _report_errors(hook: Callable[..., Any], *arguments: Any) -> Any:
    """Call a hook, and pass its errors to the torchwheel that started this process.

    Of other errors, as of a plugin of the project's, the traceback says where to look.

    Raises:
        SystemExit: an error was reported.
    """
    try:
        if hook.__name__ == "build_editable":
            _refuse_in_place(next((one for one in arguments if isinstance(one, dict)), {}))
        return hook(*arguments)
    except Exception as error:
        # Imported only here, because it takes a good part of a second.
        from torchwheel.extension.handover import read_handover, record_problems

        caller = read_handover(os.environ)
        # Several errors about metadata come as one.
        errors = getattr(error, "exceptions", [error])
        own = all(type(one).__module__.startswith(("scikit_build_core.", "torchwheel.")) for one in errors)
        if not own or caller is None or traceback_wanted(caller.config_settings):
            raise
        if not isinstance(error, TorchwheelError):
            problems = [Problem.of("project-refused", origin="pyproject.toml", reason=one) for one in errors]
            error = TorchwheelError(problems)
        record_problems(error, os.environ)
        raise SystemExit(1) from None


def _refuse_in_place(given: dict[str, Any]) -> None:
    """Check that CMake builds in torchwheel's folder."""
    if (
        SettingsReader.from_file("pyproject.toml", given, state="editable").settings.editable.mode
        == "inplace"
    ):
        raise refusal("editable-in-place", origin="editable.mode of scikit-build-core")
