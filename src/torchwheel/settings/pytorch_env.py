"""The environment variables that PyTorch's build reads (pytorch_env.toml), and the settings made from them."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from torchwheel.reporting.errors import Problem
from torchwheel.settings.known_keys import all_keys
from torchwheel.settings.layers import Layer, RawValue, Setting, Source
from torchwheel.settings.value_types import parse_truth
from torchwheel.system.toml import read_toml

_WINDOWS = os.name == "nt"
_ARGUMENTS_RANK = -1000
"""CMAKE_ARGS loses to a variable with the option's own name, which PyTorch's build forwards with FORCE.

Of a repeated ``-D`` the last one wins, as in CMake."""
_AS_FOR_A_SHELL = "write it as for a shell: CMAKE_ARGS=\"-DUSE_NCCL=OFF '-DCMAKE_CXX_FLAGS=-O2 -g'\""


@dataclass(frozen=True)
class VariableRule:
    """What a variable, or every variable with a prefix, is converted to.

    Attributes:
        becomes: ``define``, ``env``, ``cmake-args``, the name of a setting, or empty for nothing.
        order: rank among variables that become the same setting; 0 wins.
        flag: for a boolean variable, the setting's value when it is true.
    """

    becomes: str
    order: int = 0
    option: str = ""
    flag: str = ""
    allowed: tuple[str, ...] = ()
    why: str = ""
    remedy: str = ""


class PytorchVariables:
    """The variables of PyTorch's build; Windows reports all names in upper case."""

    def __init__(self, *, windows: bool) -> None:
        self.table = table = read_toml(Path(__file__).with_name("pytorch_env.toml"))
        # Further variables by which CMake finds a package.
        folders = {
            variable.upper() if windows else variable: VariableRule("env")
            for package in table["package"]["names"]
            for variable in (f"{package}_ROOT", f"{package.upper()}_ROOT", f"{package}_DIR")
        }
        named = {name: _read_rule(entry, name) for entry in table["variable"] for name in entry["names"]}
        self.rules = {**folders, **named}
        # For variables without a rule of their own.
        self._patterns = [
            (form.format(name), _read_rule(entry, ""))
            for kind, form in (("prefix", "{}?*"), ("suffix", "?*{}"))
            for entry in table[kind]
            for name in entry["names"]
        ]
        # They only look like PyTorch's, or must not reach a build.
        self._ignored = [(pattern, entry) for entry in table["ignored"] for pattern in entry["names"]]
        self._upper_case = {name.upper(): name for name in named} if windows else None

    def find_rule(self, name: str) -> VariableRule | None:
        name = self.normalise_name(name)
        if name in self.rules:
            return self.rules[name]
        if self.reason_ignored(name):
            return None
        return next((rule for pattern, rule in self._patterns if fnmatchcase(name, pattern)), None)

    def reason_ignored(self, name: str) -> str:
        name = self.normalise_name(name)
        return next((entry["reason"] for pattern, entry in self._ignored if fnmatchcase(name, pattern)), "")

    def is_refused(self, name: str) -> bool:
        name = self.normalise_name(name)
        return any(fnmatchcase(name, pattern) for pattern, entry in self._ignored if entry.get("refused"))

    def without_refused(self, environment: Mapping[str, str]) -> dict[str, str]:
        return {name: value for name, value in environment.items() if not self.is_refused(name)}

    def can_change_build(self, name: str) -> bool:
        """Whether a variable can change PyTorch's build, so that only its resolved value may reach it."""
        return self.find_rule(name) is not None or bool(self.reason_ignored(name))

    def find_values(self, setting: str, environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Yield the variables that become a setting, with their values, in order of precedence."""
        by_name = {self.normalise_name(name): value for name, value in environment.items()}
        for name, rule in self.rules.items():
            if rule.becomes == setting and by_name.get(name):
                yield name, by_name[name]

    def normalise_name(self, name: str) -> str:
        """The name as PyTorch's build spells it: ``CUDAToolkit_ROOT`` for what Windows calls CUDATOOLKIT_ROOT."""
        return name if self._upper_case is None else self._upper_case.get(name.upper(), name.upper())


@cache
def pytorch_variables(*, windows: bool = _WINDOWS) -> PytorchVariables:
    return PytorchVariables(windows=windows)


def _read_rule(entry: Mapping[str, Any], name: str) -> VariableRule:
    several = entry.get("becomes") not in ("define", "env") or "rename" in entry
    return VariableRule(
        becomes=entry.get("becomes", ""),
        order=entry["names"].index(name) if several else 0,
        option=entry.get("rename", ""),
        flag=entry.get("flags", {}).get(name, ""),
        allowed=tuple(entry.get("allowed", ())),
        why=entry.get("why", ""),
        remedy=entry.get("remedy", ""),
    )


def read_pytorch_env(
    environment: Mapping[str, str],
    problems: list[Problem],
    folder: Path | None = None,
    *,
    windows: bool = _WINDOWS,
) -> tuple[tuple[Setting, ...], Mapping[str, str]]:
    """The settings from the variables of PyTorch's build, and the ignored variables -> why."""
    variables = pytorch_variables(windows=windows)
    source = Source(Layer.ENVIRONMENT, problems, folder, ambient=True)
    settings, ignored = list[Setting](), dict[str, str]()
    for variable, text in sorted(environment.items()):
        if not text.strip():
            continue
        if rule := variables.find_rule(variable):
            settings += _settings_of(variables.normalise_name(variable), text, rule, source)
        elif reason := variables.reason_ignored(variable):
            ignored[variable] = reason
    return tuple(settings), ignored


def _settings_of(name: str, text: str, rule: VariableRule, source: Source) -> tuple[Setting, ...]:
    origin, rank = f"variable {name}", -rule.order
    if rule.allowed:
        if text.strip() not in rule.allowed:
            values = {"name": name, "value": text, "why": rule.why, "fix": rule.remedy}
            source.problems.append(Problem.of("forbidden-value", origin=origin, **values))
        return ()
    if rule.flag:
        return _read_value(source, rule.becomes, "", rule.flag, origin, rank) if parse_truth(text) else ()
    if rule.becomes == "cmake-args":
        return _read_arguments(text, origin, source)
    if rule.becomes == "package-version" and "+" in text:
        text, _, label = text.partition("+")
        local = _read_value(source, "local-version", "", label, origin, 0)
        return (*local, *_read_value(source, "package-version", "", text, origin, 0))
    entry = (rule.option or name) if rule.becomes in ("define", "env") else ""
    return _read_value(source, rule.becomes, entry, text, origin, rank)


def _read_value(
    source: Source, key: str, entry: str, text: str, origin: str, rank: int
) -> tuple[Setting, ...]:
    example = f"{origin.removeprefix('variable ')}={all_keys()[key].example_value}"
    return replace(source, rank=rank).read([RawValue(all_keys()[key], text, origin, example, entry)])


def _read_arguments(text: str, origin: str, source: Source) -> tuple[Setting, ...]:
    try:
        # As scikit-build-core splits CMAKE_ARGS.
        words = shlex.split(text)
        fault = fault_among(words)
    except ValueError as error:
        fault = f"cannot be taken apart: {error}"
    if fault:
        said = {"where": "CMAKE_ARGS", "fault": fault, "fix": _AS_FOR_A_SHELL}
        source.problems.append(Problem.of("malformed-cmake-args", origin=origin, **said))
        return ()
    defines, rest = split_options(words)
    settings = [
        setting
        for number, (name, value) in enumerate(defines)
        # Unlike variables, CMake's options keep their case on Windows.
        if not pytorch_variables(windows=False).reason_ignored(name)
        for setting in _read_value(
            source, "define", name, value, f"{origin} -D{name}", _ARGUMENTS_RANK + number
        )
    ]
    if rest:
        rank = _ARGUMENTS_RANK
        settings.append(Setting("cmake-args", tuple(rest), source.layer, origin, ambient=True, rank=rank))
    return tuple(settings)


def fault_among(arguments: Iterable[str]) -> str:
    known = pytorch_variables().table["cmake-argument"]
    iterator = iter(split_options(arguments)[1])
    for word in iterator:
        if word.startswith("-D"):
            left = (word[2:] or next(iterator, "")).partition("=")[0]
            return f"has -D{left} without a value"
        if not word.startswith(tuple(known["names"])):
            return f"has {word}, which is no argument of CMake's configuring"
        if word in known["with-value"]:
            next(iterator, "")
    return ""


def split_options(words: Iterable[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """Split CMake's arguments into (name, value) of each ``-D`` and the rest, which includes ``-D`` without ``=``."""
    options: list[tuple[str, str]] = []
    rest: list[str] = []
    iterator = iter(words)
    for word in iterator:
        text = next(iterator, "") if word == "-D" else word.removeprefix("-D")
        left, equals, value = text.partition("=")
        name = left.partition(":")[0]
        if word.startswith("-D") and equals and name:
            options.append((name, value))
        else:
            rest += [word, text] if word == "-D" else [word]
    return options, rest
