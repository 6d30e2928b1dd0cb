"""Resolve the settings: read every source and take each key's value from the highest layer."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torchwheel.hardware.arch import ArchitectureList
from torchwheel.host.machine import Host
from torchwheel.reporting.errors import Problem, collect_problems, stop_on
from torchwheel.reporting.masking import learn_secrets
from torchwheel.reporting.terminal import config_option
from torchwheel.settings.components import Component, read_components
from torchwheel.settings.config_settings import ConfigSettings, read_config_settings, read_variables
from torchwheel.settings.known_keys import SettingsModel, all_keys
from torchwheel.settings.layers import Layer, Setting, flatten_replaced
from torchwheel.settings.overlays import (
    NATIVE,
    Detect,
    Overlays,
    Target,
    read_overlays,
    resolve_profiles,
    resolve_targets,
    user_overlays_folder,
)
from torchwheel.settings.project import Project, read_project, read_project_settings
from torchwheel.settings.pytorch_env import read_pytorch_env
from torchwheel.settings.value_types import is_same_value
from torchwheel.versions import read_range

_log = logging.getLogger(__name__)

_CMAKE_ARGS = "cmake-args"
"""Internal key for the content of CMAKE_ARGS other than options."""
# Within a layer of overlays profiles override the target, and each profile the one named before it.
_PROFILE_RANK = 10


@dataclass(frozen=True, kw_only=True)
class Settings(SettingsModel):
    """Every setting resolved; the model's fields hold the values, ``entries`` their origins.

    ``cmake_args`` is the content of CMAKE_ARGS other than ``-D`` options; ``ignored_variables``: variable -> reason.
    """

    entries: Mapping[str, Setting]
    overlays: Overlays = field(repr=False, compare=False)
    cmake_args: tuple[str, ...] = ()
    passthrough: ConfigSettings = field(default_factory=dict)
    project: Project | None = field(default=None, repr=False)
    ignored_variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_cpu(self) -> bool:
        cuda = self.defines.get("USE_CUDA")
        return bool(self.target) and cuda is not None and cuda.off

    @property
    def debug_information(self) -> bool:
        return self.build_type in ("Debug", "RelWithDebInfo")

    @property
    def defines(self) -> Mapping[str, Setting]:
        """CMake option -> setting."""
        return _entries_of(self.entries, "define")

    @property
    def variables(self) -> Mapping[str, Setting]:
        """Environment variable -> setting."""
        return _entries_of(self.entries, "env")


def load_settings(
    project: Path | Project | None,
    config_settings: ConfigSettings | None,
    environment: Mapping[str, str],
    host: Host,
    user_overlays: Path | None = None,
    *,
    detect: Detect | None = None,
    working_folder: Path = Path(),
) -> Settings:
    """Read every source of settings and resolve them by precedence.

    Relative paths in a file are relative to the project; those in variables and ``-C`` to ``working_folder``, where the
    caller is: frontends call hooks in the project. ``detect`` is called only for the target ``native``, which is not
    resolved without it; ``user_overlays`` replaces the folder that ``user_overlays_folder`` gives.
    """
    # Before anything is read, because messages quote values.
    learn_secrets({**environment, **(config_settings or {})})
    problems: list[Problem] = []
    if isinstance(project, Path):
        project = _read_project(project, problems)
    written, tables = read_project_settings(project, host, problems) if project else ((), {})
    pytorch_env, ignored = read_pytorch_env(environment, problems, working_folder)
    configured, passthrough = read_config_settings(config_settings, problems, working_folder)
    defaults = (key for key in all_keys().values() if isinstance(key.default, (str, bool, int)))
    given = (
        *(Setting(key.name, key.default, Layer.DEFAULT, "built-in default") for key in defaults),
        *written,
        *(project.sdist.read(problems) if project and project.sdist else ()),
        *pytorch_env,
        *read_variables(environment, problems, working_folder),
        *configured,
    )
    user_folder = user_overlays or user_overlays_folder(environment)
    overlays = read_overlays(tables, user_folder, host, problems)
    # The project's files may contain secrets, too.
    learn_secrets({setting.key: setting.text for setting in given})
    entries = _resolve_all(given, overlays, detect, problems)
    stop_on(problems)
    return Settings(
        **_model_values(entries),
        entries=entries,
        cmake_args=entries[_CMAKE_ARGS].value if _CMAKE_ARGS in entries else (),
        passthrough=passthrough,
        project=project,
        overlays=overlays,
        ignored_variables=ignored,
    )


def _read_project(folder: Path, problems: list[Problem]) -> Project:
    with collect_problems(problems):
        return read_project(folder)
    return Project(folder.absolute())


def _resolve_all(
    given: tuple[Setting, ...], overlays: Overlays, detect: Detect | None, problems: list[Problem]
) -> dict[str, Setting]:
    candidates = list(given)
    chosen = _find_highest(candidates, "target")
    targets = resolve_targets(chosen, overlays, detect, problems) if chosen else ()
    cuda = any(target.architectures or target.name == NATIVE for target in targets)
    if chosen and targets:
        spelled = replace(chosen, value=tuple(target.name for target in targets))
        candidates = [spelled if item is chosen else item for item in candidates]
        candidates += [item for target in targets for item in target.settings]
    named = _find_highest(candidates, "profile")
    for rank, group in enumerate(resolve_profiles(named, overlays, problems) if named else (), _PROFILE_RANK):
        candidates += [replace(setting, rank=rank) for setting in group]
    if chosen and targets and not cuda:
        problems += [p for s in candidates if s.key == "arch" for p in _check_architectures(chosen, s)]
        candidates = [item for item in candidates if item.key != "arch"]
    if chosen and targets:
        candidates += _implied_settings(chosen, targets, cuda=cuda)
    entries = _follow_dependencies(_resolve(candidates, problems), problems)
    entries = _settle_cuda_source(entries, problems)
    if chosen and targets:
        problems += _check_cuda(chosen, entries, cuda=cuda)
    problems += _check_systems(entries, overlays.host.system)
    return entries


def _find_highest(candidates: Iterable[Setting], key: str) -> Setting | None:
    named = (setting for setting in candidates if setting.key == key)
    return max(named, key=lambda setting: setting.precedence, default=None)


def _implied_settings(chosen: Setting, targets: tuple[Target, ...], *, cuda: bool) -> tuple[Setting, ...]:
    """The settings implied by the target, ranked just below explicit settings of the layer that chose it."""
    layer, rank = chosen.layer, chosen.rank - 1
    origin = f"target {', '.join(target.name for target in targets)} ({chosen.origin})"
    implied = [Setting("define.USE_CUDA", cuda, layer, origin, rank=rank)]
    if architectures := ArchitectureList.union(target.architectures for target in targets):
        sources = dict.fromkeys(target.arch_origin for target in targets if target.arch_origin)
        implied.append(Setting("arch", architectures, layer, " and ".join(sources), rank=rank))
    return tuple(implied)


def _resolve(candidates: Iterable[Setting], problems: list[Problem]) -> dict[str, Setting]:
    """Pick the setting with the highest precedence for every key, sorted by key.

    Different values of equal precedence, from two targets, are a problem; version ranges are intersected instead.
    """
    by_key: dict[str, list[Setting]] = defaultdict(list)
    for candidate in candidates:
        by_key[candidate.key].append(candidate)
    found = {key: _pick_winner(by_key[key], problems) for key in sorted(by_key)}
    for setting in (one for one in found.values() if one.layer is not Layer.DEFAULT):
        _log.info("%s is %s, by %s", setting.key, setting.text, setting.origin or setting.layer.title)
    return found


def _pick_winner(group: list[Setting], problems: list[Problem]) -> Setting:
    ordered = sorted(group, key=lambda setting: setting.precedence, reverse=True)
    level = [setting for setting in ordered if setting.precedence == ordered[0].precedence]
    different = [setting for setting in level if not is_same_value(setting.value, level[0].value)]
    winner = level[0]
    if different and winner.key == "cuda":
        ranges = dict.fromkeys(setting.value for setting in level)
        origins = dict.fromkeys(setting.origin for setting in level)
        winner = Setting("cuda", ",".join(ranges), winner.layer, " and ".join(origins), rank=winner.rank)
    elif different:
        values = {"key": winner.key, "value": winner.text, "other": different[0].text}
        origin, option = f"{winner.origin} and {different[0].origin}", config_option(winner.key, winner.text)
        problems.append(Problem.of("targets-disagree", origin=origin, option=option, **values))
    lower = tuple(setting for own in level for setting in own.replaced)
    return replace(winner, replaced=(*lower, *flatten_replaced(ordered[len(level) :])))


def _settle_cuda_source(entries: Mapping[str, Setting], problems: list[Problem]) -> dict[str, Setting]:
    """Of ``cuda-from`` and ``cuda-path`` that name different toolkits, let the higher precedence win."""
    settled = dict(entries)
    source, path = entries.get("cuda-from"), entries.get("cuda-path")
    if path is None or source is None or source.value != "pypi":
        return settled
    if path.precedence == source.precedence:
        values = {"source": source.text, "path": path.text, "origin_of_path": path.origin}
        problems.append(Problem.of("cuda-from-contradicts-path", origin=source.origin, **values))
    elif path.precedence > source.precedence:
        settled["cuda-from"] = replace(source, value="system")
        settled["cuda-path"] = path.with_replaced([replace(source, replaced=())])
    else:
        settled["cuda-from"] = source.with_replaced([path])
        del settled["cuda-path"]
    return settled


def _entries_of(entries: Mapping[str, Setting], table: str) -> dict[str, Setting]:
    return {item.name: item for item in entries.values() if item.key.startswith(f"{table}.")}


def _model_values(entries: Mapping[str, Setting]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, key in all_keys().items():
        if key.table:
            values[key.attribute] = {item.name: item.value for item in _entries_of(entries, name).values()}
        elif name in entries:
            values[key.attribute] = entries[name].value
    if "cuda" in values:
        values["cuda"] = read_range(values["cuda"])
    if "source" in values:
        values["source"] = Path(values["source"])
    for name, wanted in (("enable", True), ("disable", False)):
        named = {item.component for item in entries.values() if item.component and item.value is wanted}
        values[name] = tuple(sorted(named))
    return values


def _check_cuda(target: Setting, entries: Mapping[str, Setting], *, cuda: bool) -> Iterator[Problem]:
    """Report a setting of higher precedence that contradicts the target's ``USE_CUDA``."""
    effective = entries["define.USE_CUDA"]
    if not (effective.on if cuda else effective.off):
        id = "target-contradicts-cuda/gpu" if cuda else "target-contradicts-cuda"
        values = {"target": target.text, "origin_of_target": target.origin, "value": effective.text}
        yield Problem.of(id, origin=effective.origin, **values)


def _check_architectures(target: Setting, explicit: Setting) -> Iterator[Problem]:
    """Report an architecture list requested together with ``cpu``, which cannot use it."""
    if explicit.precedence >= target.precedence and not explicit.ambient:
        values = {"arch": explicit.text, "target": target.text, "origin_of_target": target.origin}
        yield Problem.of("arch-without-gpu", origin=explicit.origin, **values)


def _follow_dependencies(entries: Mapping[str, Setting], problems: list[Problem]) -> dict[str, Setting]:
    """Switch off the components whose dependency a setting of higher precedence switched off; report the others."""
    followed = dict(entries)
    unmet = list(_unmet_dependencies(followed))
    while following := [item for item in unmet if item[2].precedence > item[1].precedence]:
        before = dict(followed)
        for component, _, off in following:
            for key in (f"define.{option}" for option in component.options):
                if key in before:
                    consequence = replace(off, key=key, value=False, component=component.name, replaced=())
                    followed[key] = consequence.with_replaced([before[key]])
        unmet = list(_unmet_dependencies(followed))
    for component, setting, off in unmet:
        values = {
            "component": component.name,
            "needed": off.component or off.name,
            "origin_of_needed": off.origin,
        }
        problems.append(Problem.of("component-needs", origin=setting.origin, **values))
    return followed


def _check_systems(entries: Mapping[str, Setting], system: str) -> Iterator[Problem]:
    for component in read_components():
        setting = _switching_setting(component, entries, wanted=True)
        # A target implies USE_CUDA, and the plan says more of it.
        named = setting is not None and (setting.component or setting.name != "USE_CUDA")
        if setting and named and component.systems and system not in component.systems:
            values = {"component": component.name, "title": component.title, "option": setting.name}
            systems = " and ".join(component.systems)
            yield Problem.of(
                "component-not-here", origin=setting.origin, system=system, systems=systems, **values
            )


def _unmet_dependencies(entries: Mapping[str, Setting]) -> Iterator[tuple[Component, Setting, Setting]]:
    """Yield each component that is on without a dependency, with the settings that switch on the one, off the other."""
    by_name = read_components().by_name
    for component in read_components():
        setting = _switching_setting(component, entries, wanted=True)
        for group in component.depends_on if setting else ():
            off = [one for n in group if (one := _switching_setting(by_name[n], entries, wanted=False))]
            if setting and len(off) == len(group):
                yield component, setting, max(off, key=lambda item: item.precedence)


def _switching_setting(
    component: Component, entries: Mapping[str, Setting], *, wanted: bool
) -> Setting | None:
    """Find the setting that switches a component on (or off); None if there is none."""
    found = [entries[f"define.{option}"] for option in component.options if f"define.{option}" in entries]
    return next((setting for setting in found if (setting.on if wanted else setting.off)), None)
