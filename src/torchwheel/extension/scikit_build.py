"""scikit-build-core's hooks as torchwheel calls them: what stops them is reported as a problem, without its traceback.

This runs in the process of the inner backend.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import scikit_build_core.build as backend
from scikit_build_core.settings.skbuild_read_settings import SettingsReader

from torchwheel.errors import refusal


def __getattr__(name: str) -> Any:
    """What scikit-build-core has by that name; of a hook, one that reports what stops it."""
    found = getattr(backend, name)
    return partial(_report_errors, found) if callable(found) else found


def _report_errors(hook: Callable[..., Any], *arguments: Any) -> Any:
    """Call a hook; the torchwheel that started this process reads what is wrong.

    Raises:
        SystemExit: that is reported.
    """
    try:
        if hook.__name__ == "build_editable":
            _refuse_in_place(next((one for one in arguments if isinstance(one, dict)), {}))
        return hook(*arguments)
    except Exception as error:
        # It takes a good part of a second, which a build that goes well does not spend.
        from torchwheel.extension.scikit_build_problems import report_error  # where something failed

        if not report_error(error, hook.__name__, arguments):
            raise
        raise SystemExit(1) from None


def _refuse_in_place(given: dict[str, Any]) -> None:
    """See that CMake builds in torchwheel's folder.

    Raises:
        TorchwheelError: it would build in the checkout.
    """
    if (
        SettingsReader.from_file("pyproject.toml", given, state="editable").settings.editable.mode
        == "inplace"
    ):
        raise refusal("editable-in-place", origin="editable.mode of scikit-build-core")


def rebuilds_on_import(given: dict[str, Any]) -> bool:
    """Whether an editable install of the project in the current folder builds again when it is imported."""
    return bool(SettingsReader.from_file("pyproject.toml", given, state="editable").settings.editable.rebuild)
