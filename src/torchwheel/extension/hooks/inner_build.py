"""What a hook of the backend tells the setup.py that it runs in its own process, and what that tells it back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torchwheel.extension.model import ExtensionPlan
from torchwheel.survey import ConfigSettings


class InnerBuild:
    """One hook while it runs.

    Attributes:
        config_settings: torchwheel's own settings of ``-C``.
        plans: what has been built, in order.
    """

    def __init__(self, config_settings: ConfigSettings) -> None:
        self.config_settings = config_settings
        self.plans: list[ExtensionPlan] = []


_running: list[InnerBuild] = []


@contextmanager
def inner_build(config_settings: ConfigSettings) -> Iterator[InnerBuild]:
    """Everything that is built meanwhile in this process is built with these settings."""
    build = InnerBuild(config_settings)
    _running.append(build)
    try:
        yield build
    finally:
        _running.remove(build)


def is_running() -> bool:
    """Whether a hook of torchwheel's runs in this process, which finishes the wheel itself."""
    return bool(_running)


def asked_settings() -> ConfigSettings:
    """The settings of the hook that runs; none for a setup.py that no hook of torchwheel's runs."""
    return _running[-1].config_settings if _running else {}


def tell_plan(plan: ExtensionPlan) -> None:
    """Tell the hook that runs, if there is one, what is built."""
    if _running:
        _running[-1].plans.append(plan)
