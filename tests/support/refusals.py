"""What is said where a call is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec

import pytest

from torchwheel.reporting.errors import TorchwheelError

_P = ParamSpec("_P")


def error_of(call: Callable[_P, object], *arguments: _P.args, **options: _P.kwargs) -> TorchwheelError:
    """The error of a call that is refused."""
    with pytest.raises(TorchwheelError) as caught:
        call(*arguments, **options)
    return caught.value


def ids_of(call: Callable[_P, object], *arguments: _P.args, **options: _P.kwargs) -> list[str]:
    """The ids of the problems for which a call is refused."""
    return [problem.id for problem in error_of(call, *arguments, **options).problems]


def origins_of(
    call: Callable[_P, object], *arguments: _P.args, **options: _P.kwargs
) -> list[tuple[str, str]]:
    """The ids of the problems for which a call is refused, each with its origin."""
    return [(problem.id, problem.origin) for problem in error_of(call, *arguments, **options).problems]
