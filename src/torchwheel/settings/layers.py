"""The layers that settings come from, and a setting with its layer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

from torchwheel.reporting.masking import mask_value
from torchwheel.settings.value_types import parse_truth


class Layer(IntEnum):
    """Where a setting comes from; a higher layer beats a lower one."""

    DEFAULT = 0
    BUILTIN_OVERLAY = 1
    USER_OVERLAY = 2
    PROJECT = 3
    ENVIRONMENT = 4
    CONFIG = 5

    @property
    def title(self) -> str:
        return _TITLES[self]


_TITLES = {
    Layer.DEFAULT: "built-in default",
    Layer.BUILTIN_OVERLAY: "built-in overlay",
    Layer.USER_OVERLAY: "user overlay",
    Layer.PROJECT: "project",
    Layer.ENVIRONMENT: "environment",
    Layer.CONFIG: "-C",
}


@dataclass(frozen=True)
class Setting:
    """One value, with its origin and the settings that it replaced.

    Attributes:
        key: dotted name: ``target``, ``define.USE_NCCL``, ``env.CFLAGS``.
        origin: the place in that layer: a file and table, ``-C target``, ``variable USE_NCCL``.
        replaced: the settings that lost to it, highest first.
        component: the component whose ``enable`` or ``disable`` made this define; else empty.
        ambient: whether it comes from another tool's variable, such as ``CUDA_HOME``.
        rank: order within the layer, higher beats lower.
    """

    key: str
    value: Any
    layer: Layer
    origin: str
    replaced: tuple[Setting, ...] = ()
    component: str = ""
    ambient: bool = False
    rank: int = 0

    @property
    def precedence(self) -> tuple[Layer, int]:
        """The sort key between two settings of one key; the higher one wins."""
        return self.layer, self.rank

    @property
    def text(self) -> str:
        if isinstance(self.value, bool):
            return "true" if self.value else "false"
        return ", ".join(self.value) if isinstance(self.value, tuple) else str(self.value)

    @property
    def shown(self) -> str:
        """The value as one line of text, with secrets masked."""
        return mask_value(self.name, self.text)

    @property
    def on(self) -> bool:
        return parse_truth(self.value) is True

    @property
    def off(self) -> bool:
        return parse_truth(self.value) is False

    @property
    def name(self) -> str:
        """The key without its table: ``USE_NCCL`` of ``define.USE_NCCL``."""
        return self.key.partition(".")[2] or self.key

    def with_replaced(self, beaten: Iterable[Setting]) -> Setting:
        return replace(self, replaced=(*self.replaced, *flatten_replaced(beaten)))


def flatten_replaced(settings: Iterable[Setting]) -> tuple[Setting, ...]:
    """Return one flat sequence: each setting, followed by the ones that it had replaced."""
    row: list[Setting] = []
    for setting in settings:
        row += [replace(setting, replaced=()), *setting.replaced]
    return tuple(row)


def stack_groups(groups: Iterable[Iterable[Setting]]) -> tuple[Setting, ...]:
    """Merge groups of settings of one layer; for each key the last group wins."""
    winners: dict[str, Setting] = {}
    for group in groups:
        for setting in group:
            beaten = winners.get(setting.key)
            winners[setting.key] = setting.with_replaced([beaten]) if beaten else setting
    return tuple(winners.values())
