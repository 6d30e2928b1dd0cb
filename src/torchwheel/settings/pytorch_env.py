"""Environment variables that are not torchwheel's own but decide PyTorch's build; read from ambient.toml."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from torchwheel._toml import read_toml
from torchwheel.errors import Problem, TorchwheelError
from torchwheel.settings.assignments import Assignment, Source, read_assignments
from torchwheel.settings.layers import Layer, Setting
from torchwheel.settings.model import keys
from torchwheel.settings.value_types import Place
from torchwheel.settings.values import truth

_ARGUMENTS_RANK = -1000
"""CMAKE_ARGS loses to a variable of the option's own name, which PyTorch's build forwards with FORCE.

Of a repeated ``-D`` the last one counts, as in CMake."""


@dataclass(frozen=True)
class Rule:
    """What one variable, or every variable with a prefix, becomes.

    Attributes:
        becomes: ``define``, ``env``, ``cmake-args``, the name of a setting, or empty for nothing.
        order: 0 for the variable that wins among those that become the same, 1 for the next.
        option: the CMake option, where the variable has another name.
        flag: the setting's value that the variable, a truth value, stands for when true.
        allowed: the only values that are harmless; empty for any.
        why: why no others are.
        remedy: what to do about others.
    """

    becomes: str
    order: int = 0
    option: str = ""
    flag: str = ""
    allowed: tuple[str, ...] = ()
    why: str = ""
    remedy: str = ""


@dataclass(frozen=True)
class AmbientRules:
    """What is known of foreign variables.

    Attributes:
        variables: name -> rule.
        prefixes: (prefix, rule), for variables that no list names.
        ignored: (name or pattern, reason) of variables that only look like PyTorch's.
        own: name -> description of torchwheel's own variables that are no settings.
    """

    variables: Mapping[str, Rule]
    prefixes: tuple[tuple[str, Rule], ...]
    ignored: tuple[tuple[str, str], ...]
    own: Mapping[str, str]

    def rule(self, name: str) -> Rule | None:
        """The rule for a variable; None if it has nothing to do with the build."""
        if name in self.variables:
            return self.variables[name]
        if self.reason_ignored(name):
            return None
        return next(
            (rule for prefix, rule in self.prefixes if name.startswith(prefix) and name != prefix), None
        )

    def reason_ignored(self, name: str) -> str:
        """Why a variable is not taken over although its name looks like PyTorch's; else empty."""
        return next((reason for pattern, reason in self.ignored if _matches(name, pattern)), "")


def _matches(name: str, pattern: str) -> bool:
    """A pattern may end in ``*`` and hold no other; fnmatch would compile an expression for each of them."""
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


@dataclass(frozen=True)
class AmbientSettings:
    """What foreign variables say.

    Attributes:
        settings: the settings, in no order; rank decides among those of one key.
        ignored: variable -> why it was not taken over.
    """

    settings: tuple[Setting, ...]
    ignored: Mapping[str, str]


@cache
def ambient_table() -> Mapping[str, Any]:
    """ambient.toml as it is written."""
    return read_toml(Path(__file__).with_name("ambient.toml"))


@cache
def ambient_rules() -> AmbientRules:
    """The rules of ambient.toml."""
    table = ambient_table()
    variables = {name: _rule(entry, name) for entry in table["variable"] for name in entry["names"]}
    return AmbientRules(
        variables=variables,
        prefixes=tuple((prefix, _rule(entry, "")) for entry in table["prefix"] for prefix in entry["names"]),
        ignored=tuple((pattern, entry["reason"]) for entry in table["ignored"] for pattern in entry["names"]),
        own={entry["name"]: entry["description"] for entry in table["own"]},
    )


def _rule(entry: Mapping[str, Any], name: str) -> Rule:
    several = entry.get("becomes") not in ("define", "env") or "rename" in entry
    return Rule(
        becomes=entry.get("becomes", ""),
        order=entry["names"].index(name) if several else 0,
        option=entry.get("rename", ""),
        flag=entry.get("flags", {}).get(name, ""),
        allowed=tuple(entry.get("allowed", ())),
        why=entry.get("why", ""),
        remedy=entry.get("remedy", ""),
    )


def is_build_variable(name: str) -> bool:
    """Whether a variable can change PyTorch's build, so that only its resolved value may reach it."""
    rules = ambient_rules()
    return rules.rule(name) is not None or bool(rules.reason_ignored(name))


def read_ambient(
    environment: Mapping[str, str], problems: list[Problem], *, upper_case: bool = os.name == "nt"
) -> AmbientSettings:
    """The settings that foreign variables make.

    Args:
        environment: the variables.
        problems: what is wrong with them is added here.
        upper_case: whether all names come in upper case, as they do on Windows.
    """
    rules = ambient_rules()
    settings: list[Setting] = []
    ignored: dict[str, str] = {}
    for variable, text in sorted(environment.items()):
        name = _upper_case_names().get(variable, variable) if upper_case else variable
        rule = rules.rule(name)
        if not text.strip():
            continue
        if rule is not None:
            settings += _read_variable(name, text, rule, problems)
        elif reason := rules.reason_ignored(name):
            ignored[variable] = reason
    return AmbientSettings(tuple(settings), ignored)


@cache
def _upper_case_names() -> Mapping[str, str]:
    return {name.upper(): name for name in ambient_rules().variables}


def _read_variable(name: str, text: str, rule: Rule, problems: list[Problem]) -> tuple[Setting, ...]:
    origin = f"variable {name}"
    if rule.allowed:
        if text.strip() not in rule.allowed:
            problems.append(_forbidden(name, text, rule))
        return ()
    if rule.flag:
        return _read(rule.becomes, "", rule.flag, origin, -rule.order, problems) if truth(text) else ()
    if rule.becomes == "cmake-args":
        return _read_arguments(text, origin, problems)
    if rule.becomes == "version" and "+" in text:
        text, _, label = text.partition("+")
        local = _read("local-version", "", label, origin, 0, problems)
        return (*local, *_read("version", "", text, origin, 0, problems))
    entry = (rule.option or name) if rule.becomes in ("define", "env") else ""
    return _read(rule.becomes, entry, text, origin, -rule.order, problems)


def _read(
    key: str, entry: str, text: str, origin: str, rank: int, problems: list[Problem]
) -> tuple[Setting, ...]:
    variable = origin.removeprefix("variable ")
    example = f"{variable}={keys()[key].example}"
    place = Place(f"{key}.{entry}" if entry else key, origin, example, textual=True)
    source = Source(Layer.ENVIRONMENT, rank=rank, ambient=True)
    return read_assignments([Assignment(keys()[key], text, place, entry)], source, problems)


def _read_arguments(text: str, origin: str, problems: list[Problem]) -> tuple[Setting, ...]:
    try:
        words = shlex.split(text)
        defines, rest = _parted(words, origin)
    except ValueError as error:
        problems.append(_malformed(origin, f"cannot be taken apart: {error}"))
        return ()
    except TorchwheelError as error:
        problems += error.problems
        return ()
    settings = [
        setting
        for number, (name, value) in enumerate(defines)
        if not ambient_rules().reason_ignored(name)
        for setting in _read("define", name, value, f"{origin} -D{name}", _ARGUMENTS_RANK + number, problems)
    ]
    if rest:
        settings.append(
            Setting("cmake-args", tuple(rest), Layer.ENVIRONMENT, origin, ambient=True, rank=_ARGUMENTS_RANK)
        )
    return tuple(settings)


def _parted(words: list[str], origin: str) -> tuple[list[tuple[str, str]], list[str]]:
    """CMake's arguments as (option, value) pairs and the rest."""
    defines: list[tuple[str, str]] = []
    rest: list[str] = []
    iterator: Iterator[str] = iter(words)
    for word in iterator:
        if not word.startswith("-D"):
            rest.append(word)
            continue
        left, equals, value = (word[2:] or next(iterator, "")).partition("=")
        name = left.partition(":")[0]
        if not equals or not name:
            raise TorchwheelError(_malformed(origin, f"has -D{left} without a value"))
        defines.append((name, value))
    return defines, rest


def _malformed(origin: str, fault: str) -> Problem:
    return Problem(
        id="malformed-cmake-args",
        what=f"CMAKE_ARGS {fault}",
        remedy="write it as for a shell: CMAKE_ARGS=\"-DUSE_NCCL=OFF '-DCMAKE_CXX_FLAGS=-O2 -g'\"",
        origin=origin,
    )


def _forbidden(name: str, text: str, rule: Rule) -> Problem:
    return Problem(
        id="forbidden-value",
        what=f"{name} is {text}",
        remedy=rule.remedy,
        why=rule.why,
        origin=f"variable {name}",
    )
