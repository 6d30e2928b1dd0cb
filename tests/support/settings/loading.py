"""The types of this folder's fixtures, and how a refusal reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from torchwheel.host.machine import Host
from torchwheel.reporting.errors import Problem
from torchwheel.settings import Settings
from torchwheel.settings.config_settings import ConfigValue


class Load(Protocol):
    """Loads settings: a pyproject.toml's text, -C, variables, and user overlays as file name -> text."""

    def __call__(
        self,
        pyproject: str = ...,
        config: Mapping[str, ConfigValue] = ...,
        environment: Mapping[str, str] = ...,
        overlays: Mapping[str, str] = ...,
        host: Host | None = ...,
        **options: Any,
    ) -> Settings: ...


class Refuse(Protocol):
    """Loads settings that must be refused, and gives the problems."""

    def __call__(self, **sources: Any) -> tuple[Problem, ...]: ...


def rendered(problems: tuple[Problem, ...]) -> list[str]:
    """Every problem as a user sees it."""
    return [problem.render() for problem in problems]
