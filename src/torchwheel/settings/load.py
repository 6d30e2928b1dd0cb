"""From every source to the resolved settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from platformdirs import PlatformDirs

from torchwheel._resources import overlays_folder
from torchwheel.errors import Problem, TorchwheelError
from torchwheel.hardware.arch import ArchitectureList
from torchwheel.host.model import Host
from torchwheel.settings.config_settings import ConfigValue, read_config_settings
from torchwheel.settings.cuda_source import settle_cuda_source
from torchwheel.settings.definitions import NATIVE, OverlayFolder
from torchwheel.settings.layers import Layer, Setting
from torchwheel.settings.project import Project, read_project
from torchwheel.settings.pytorch_env import read_ambient
from torchwheel.settings.resolve import CMAKE_ARGS, Settings, default_settings, model_values, resolve
from torchwheel.settings.targets import Detect, Library, Target, resolve_profiles, resolve_targets
from torchwheel.settings.validate import (
    check_architectures,
    check_cuda,
    check_dependencies,
    check_systems,
    follow_dependencies,
)
from torchwheel.settings.variables import read_variables

_PROFILE_RANK = 10
"""Profiles lie over the target within a layer of overlays, each over the one named before it."""


def user_overlays_folder(environment: Mapping[str, str]) -> Path:
    """The folder of the user's own overlays, in TORCHWHEEL_CONFIG_DIR or the user's configuration folder."""
    if configured := environment.get("TORCHWHEEL_CONFIG_DIR"):
        return Path(configured) / "overlays"
    return PlatformDirs("torchwheel", appauthor=False).user_config_path / "overlays"


def load_settings(
    project: Path | None,
    config_settings: Mapping[str, ConfigValue] | None,
    environment: Mapping[str, str],
    host: Host,
    user_overlays: Path | None = None,
    *,
    detect: Detect | None = None,
) -> Settings:
    """Read every source of settings and resolve them by precedence.

    Args:
        project: the folder whose pyproject.toml counts; it may have none.
        config_settings: what the frontend hands over from ``-C``.
        environment: the process's environment.
        host: the machine that conditions in overlays ask about.
        user_overlays: the user's overlay folder, instead of the one that ``user_overlays_folder`` gives.
        detect: finds the GPUs of this machine; called only for the target ``native``, which without it
            stays a name.

    Raises:
        TorchwheelError: anything is wrong; everything that is wrong is in it.
    """
    problems: list[Problem] = []
    pyproject = read_project(project, host, problems)
    ambient = read_ambient(environment, problems)
    config = read_config_settings(config_settings, problems)
    given = (
        *default_settings(),
        *pyproject.settings,
        *ambient.settings,
        *read_variables(environment, problems),
        *config.settings,
    )
    library = _library(pyproject, user_overlays or user_overlays_folder(environment), host, problems)
    entries, titles = _resolve_all(given, library, detect, problems)
    if problems:
        raise TorchwheelError(dict.fromkeys(problems))
    return Settings(
        **model_values(entries),
        entries=entries,
        cmake_args=entries[CMAKE_ARGS].value if CMAKE_ARGS in entries else (),
        passthrough=config.passthrough,
        project=project,
        adopted=pyproject.adopted,
        pyproject=pyproject,
        ignored_variables=ambient.ignored,
        titles=titles,
    )


def architectures_of(
    names: tuple[str, ...], origin: str, pyproject: Project, environment: Mapping[str, str], host: Host
) -> ArchitectureList | None:
    """What the named targets are compiled for, as this project understands the names; None for the CPU alone.

    Args:
        names: GPUs by name or alias, or targets of overlays and of the project.
        origin: where they are named.
        pyproject: what the project's pyproject.toml says.
        environment: the process's environment.
        host: the machine that conditions ask about.

    Raises:
        TorchwheelError: a name is unknown.
    """
    problems: list[Problem] = []
    library = _library(pyproject, user_overlays_folder(environment), host, problems)
    asked = Setting("target", names, Layer.PROJECT, origin)
    targets = resolve_targets(asked, library, None, problems)
    if problems:
        raise TorchwheelError(dict.fromkeys(problems))
    lists = [target.architectures for target in targets if target.architectures]
    return type(lists[0]).of(item for one in lists for item in one.targets) if lists else None


def _library(pyproject: Project, user_overlays: Path, host: Host, problems: list[Problem]) -> Library:
    return Library(
        folders=(
            OverlayFolder(overlays_folder(), Layer.BUILTIN_OVERLAY, "overlays"),
            OverlayFolder(user_overlays, Layer.USER_OVERLAY),
        ),
        tables=pyproject.targets,
        host=host,
        problems=problems,
    )


@dataclass(frozen=True)
class _Chosen:
    """The target setting with what it stands for."""

    setting: Setting
    targets: tuple[Target, ...]

    @property
    def cuda(self) -> bool:
        return any(target.architectures or target.name == NATIVE for target in self.targets)

    def implied(self) -> tuple[Setting, ...]:
        """What the target itself says, just below explicit settings of the layer that chose it."""
        rank = self.setting.rank - 1
        layer = self.setting.layer
        names = ", ".join(target.name for target in self.targets)
        origin = f"target {names} ({self.setting.origin})"
        implied = [Setting("define.USE_CUDA", self.cuda, layer, origin, rank=rank)]
        lists = [target.architectures for target in self.targets if target.architectures]
        if lists:
            merged = type(lists[0]).of(item for architectures in lists for item in architectures.targets)
            sources = dict.fromkeys(target.arch_origin for target in self.targets if target.arch_origin)
            implied.append(Setting("arch", merged, layer, " and ".join(sources), rank=rank))
        return tuple(implied)


def _resolve_all(
    given: tuple[Setting, ...], library: Library, detect: Detect | None, problems: list[Problem]
) -> tuple[dict[str, Setting], dict[str, str]]:
    chosen = _choose(given, library, detect, problems)
    candidates = list(given)
    titles: dict[str, str] = {}
    if chosen:
        named = replace(chosen.setting, value=tuple(target.name for target in chosen.targets))
        candidates = [named if item is chosen.setting else item for item in candidates]
        candidates += [item for target in chosen.targets for item in target.settings]
        titles = {target.name: target.title for target in chosen.targets if target.title}
    candidates += _profile_settings(candidates, library, problems)
    if chosen and not chosen.cuda:
        problems += [p for s in candidates if s.key == "arch" for p in check_architectures(chosen.setting, s)]
        candidates = [item for item in candidates if item.key != "arch"]
    implied = chosen.implied() if chosen else ()
    entries = follow_dependencies(resolve([*candidates, *implied], problems))
    if entries["cuda-from"].layer is not Layer.DEFAULT:
        entries = settle_cuda_source(entries, problems)
    if chosen:
        problems += check_cuda(chosen.setting, implied[0], entries)
    problems += check_dependencies(entries)
    problems += check_systems(entries, library.host.system)
    return entries, titles


def _choose(
    given: tuple[Setting, ...], library: Library, detect: Detect | None, problems: list[Problem]
) -> _Chosen | None:
    named = [setting for setting in given if setting.key == "target"]
    if not named:
        return None
    setting = max(named, key=lambda item: item.precedence)
    targets = resolve_targets(setting, library, detect, problems)
    return _Chosen(setting, targets) if targets else None


def _profile_settings(candidates: list[Setting], library: Library, problems: list[Problem]) -> list[Setting]:
    named = [setting for setting in candidates if setting.key == "profile"]
    if not named:
        return []
    asked = max(named, key=lambda item: item.precedence)
    profiles = resolve_profiles(asked, library, problems)
    return [
        replace(setting, rank=_PROFILE_RANK + number)
        for number, group in enumerate(profiles)
        for setting in group
    ]
