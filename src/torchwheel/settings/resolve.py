"""The settings after all layers: the highest layer's value of every key, remembering the others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torchwheel.errors import Problem
from torchwheel.hardware.arch import ArchitectureList
from torchwheel.settings.config_settings import ConfigValue
from torchwheel.settings.layers import Layer, Setting, flattened
from torchwheel.settings.model import SettingsModel, keys
from torchwheel.settings.project import Adopted, Project
from torchwheel.settings.values import same, truth
from torchwheel.versions import ReleaseRange, read_range

CMAKE_ARGS = "cmake-args"
"""The key of what CMAKE_ARGS holds beside options; no setting that a user gives."""


@dataclass(frozen=True)
class Explained:
    """One resolved value as text, for printing."""

    key: str
    value: str
    layer: str
    origin: str
    replaced: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Settings(SettingsModel):
    """Every setting resolved; the model's fields hold the values, ``entries`` where each comes from.

    Attributes:
        entries: dotted key -> setting, sorted by key.
        cmake_args: what CMAKE_ARGS holds beside ``-D`` options.
        passthrough: config settings of the wrapped backends, as they were given.
        project: the folder whose pyproject.toml was read.
        adopted: the tree's own backend, where torchwheel was put before it.
        pyproject: what pyproject.toml says.
        ignored_variables: variable -> why it was not taken over although its name looks like PyTorch's.
        titles: target or profile -> what it is, in a few words.
    """

    entries: Mapping[str, Setting] = field(default_factory=dict)
    cmake_args: tuple[str, ...] = ()
    passthrough: Mapping[str, ConfigValue] = field(default_factory=dict)
    project: Path | None = None
    adopted: Adopted | None = None
    pyproject: Project = field(default_factory=Project, repr=False)
    ignored_variables: Mapping[str, str] = field(default_factory=dict)
    titles: Mapping[str, str] = field(default_factory=dict)

    @property
    def target_names(self) -> tuple[str, ...]:
        """Canonical names of the targets; empty when nobody named one."""
        return self.target or ()

    @property
    def is_cpu(self) -> bool:
        """Whether the target is a build without CUDA."""
        cuda = self.defines.get("USE_CUDA")
        return bool(self.target) and cuda is not None and truth(cuda.value) is False

    @property
    def architectures(self) -> ArchitectureList | None:
        """What device code is compiled for; None for a CPU build and while nobody has said."""
        return self.arch

    @property
    def cuda_range(self) -> ReleaseRange | None:
        """The CUDA toolkits that may be used; None for any."""
        return self.cuda

    @property
    def defines(self) -> Mapping[str, Setting]:
        """CMake option -> setting."""
        return self._table("define")

    @property
    def variables(self) -> Mapping[str, Setting]:
        """Environment variable -> setting."""
        return self._table("env")

    def get(self, key: str) -> Setting | None:
        """The setting of a dotted key; None when no layer has it."""
        return self.entries.get(key)

    def explain(self) -> tuple[Explained, ...]:
        """Every value with its layer, its origin and what it replaced, as text."""
        return tuple(
            Explained(
                key=setting.key,
                value=setting.text,
                layer=setting.layer.title,
                origin=setting.origin,
                replaced=tuple(f"{other.text} ({other.origin})" for other in setting.replaced),
            )
            for setting in self.entries.values()
        )

    def _table(self, table: str) -> dict[str, Setting]:
        return {item.name: item for item in self.entries.values() if item.key.startswith(f"{table}.")}


def default_settings() -> tuple[Setting, ...]:
    """The lowest layer: the model's own defaults."""
    return tuple(
        Setting(key.name, key.default, Layer.DEFAULT, "built-in default")
        for key in keys().values()
        if isinstance(key.default, (str, bool, int))
    )


def resolve(candidates: Iterable[Setting], problems: list[Problem]) -> dict[str, Setting]:
    """Of every key the setting with the highest precedence, sorted by key.

    Two targets that want different values in one place are a problem; version ranges are intersected instead.
    """
    by_key: dict[str, list[Setting]] = defaultdict(list)
    for candidate in candidates:
        by_key[candidate.key].append(candidate)
    return {key: _winner(by_key[key], problems) for key in sorted(by_key)}


def _winner(group: list[Setting], problems: list[Problem]) -> Setting:
    ordered = sorted(group, key=lambda setting: setting.precedence, reverse=True)
    level = [setting for setting in ordered if setting.precedence == ordered[0].precedence]
    different = [setting for setting in level if not same(setting.value, level[0].value)]
    winner = level[0]
    if different and winner.key == "cuda":
        ranges = dict.fromkeys(setting.value for setting in level)
        origins = dict.fromkeys(setting.origin for setting in level)
        winner = Setting("cuda", ",".join(ranges), winner.layer, " and ".join(origins))
    elif different:
        problems.append(_targets_disagree(winner, different[0]))
    lower = tuple(setting for own in level for setting in own.replaced)
    return Setting(
        key=winner.key,
        value=winner.value,
        layer=winner.layer,
        origin=winner.origin,
        replaced=(*lower, *flattened(ordered[len(level) :])),
        component=winner.component,
        ambient=winner.ambient,
        rank=winner.rank,
    )


def _targets_disagree(one: Setting, other: Setting) -> Problem:
    return Problem(
        id="targets-disagree",
        what=f"{one.key} is {one.text} for one target and {other.text} for another",
        remedy=f"say which: -C {one.key}={one.text}",
        origin=f"{one.origin} and {other.origin}",
    )


def model_values(entries: Mapping[str, Setting]) -> dict[str, Any]:
    """The values of the model's fields."""
    values: dict[str, Any] = {}
    for name, key in keys().items():
        if key.table:
            prefix = f"{name}."
            table = {item.name: item.value for item in entries.values() if item.key.startswith(prefix)}
            values[key.attribute] = table
        elif name in entries:
            values[key.attribute] = entries[name].value
    if "cuda" in values:
        values["cuda"] = read_range(values["cuda"])
    values["target"] = values.get("target") or None
    if "source" in values:
        values["source"] = Path(values["source"])
    values["enable"] = _components(entries, wanted=True)
    values["disable"] = _components(entries, wanted=False)
    return values


def _components(entries: Mapping[str, Setting], *, wanted: bool) -> tuple[str, ...]:
    named = {item.component for item in entries.values() if item.component and item.value is wanted}
    return tuple(sorted(named))
