"""Settings from ``-C key=value`` and from ``TORCHWHEEL_KEY`` variables."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from torchwheel.host.compilers import split_words
from torchwheel.reporting.errors import Problem, find_nearest
from torchwheel.reporting.terminal import config_option
from torchwheel.settings.known_keys import Key, Where, all_keys, keys_for, nearest_key
from torchwheel.settings.layers import Layer, RawValue, Setting, Source, join_lists
from torchwheel.settings.pytorch_env import fault_among, split_options
from torchwheel.settings.value_types import unusable_character_problem
from torchwheel.system.toml import read_toml, unusable_character

ConfigValue = str | list[str] | bool
ConfigSettings = Mapping[str, ConfigValue]
"""The config settings that a frontend passes, from ``-C``."""


class OptionValue(str):
    option: str

    def __new__(cls, text: str, option: str) -> OptionValue:
        value = super().__new__(cls, text)
        value.option = option
        return value


_DEFINE = all_keys()["define"]

CMAKE_ARGUMENTS = "cmake.args"
"""scikit-build-core's setting for the arguments of CMake."""

_AS_A_LIST = "write arguments of CMake with semicolons between them: -C 'cmake.args=-DUSE_NCCL=OFF;-Wno-dev'"

PREFIX = "TORCHWHEEL_"
OTHER_VARIABLES = {
    "TORCHWHEEL_CACHE_DIR": "The folder of build directories, staged sources and environments, instead of the user's "
    "cache folder.",
    "TORCHWHEEL_CONFIG_DIR": "The folder that holds `overlays/`, instead of the user's configuration folder.",
}
"""torchwheel's own variables that are not settings, each with its purpose.

Any other name that begins with ``TORCHWHEEL_`` and is not a setting is an error. Variables of the tests and tools
here begin with ``TEST_TORCHWHEEL_`` instead.
"""

_OWN_RANK = 10
"""torchwheel's own variables beat those of PyTorch's build, which may be set for another purpose."""


@dataclass(frozen=True)
class Passthrough:
    """The config settings of the wrapped backends.

    Attributes:
        backends: the name of a setting, without prefix -> its backend; a final ``.*`` matches every name below.
        partial: the settings that build or install only a part of a project.
        renamed: the assignment that replaces a setting, with ``{}`` for its value.
    """

    backends: Mapping[str, str]
    partial: frozenset[str]
    renamed: Mapping[str, str]

    def find_backend(self, name: str) -> str | None:
        # A final `.*` does not match the empty name.
        found = (own for known, own in self.backends.items() if fnmatchcase(name, known.replace(".*", ".?*")))
        return next(found, None)


def bare_name(name: str) -> str:
    """A setting's name without the prefix that scikit-build-core allows."""
    return name.removeprefix("skbuild.")


@cache
def read_passthrough() -> Passthrough:
    table = read_toml(Path(__file__).with_name("passthrough.toml"))
    return Passthrough(
        backends={name: backend for backend, entry in table.items() for name in entry["names"]},
        partial=frozenset(name for entry in table.values() for name in entry.get("partial", ())),
        renamed={old: new for entry in table.values() for old, new in entry.get("renamed", {}).items()},
    )


# --- -C


def read_config_settings(
    given: ConfigSettings | None, problems: list[Problem], folder: Path | None = None
) -> tuple[tuple[Setting, ...], ConfigSettings]:
    """Read the settings given with ``-C``, and collect the ones for the wrapped backend.

    Of the latter only CMake's arguments are read, because their options change the wheel's name and manifest.
    """
    values, handed_on = list[RawValue](), dict[str, ConfigValue]()
    for name, value in (given or {}).items():
        if found := own_key(name):
            values += _config_value(name, value, *found, problems)
        elif sign := unusable_character((name, value)):
            problems.append(unusable_character_problem(sign, f"-C {name}"))
        elif read_passthrough().find_backend(bare := bare_name(name)):
            if handed_on.setdefault(bare, value) != value:
                one, other = (f"{bare} is {shown}" for shown in (handed_on[bare], value))
                problems.append(Problem.of("contradiction", origin=f"-C {name}", one=one, other=other))
            if bare == CMAKE_ARGUMENTS:
                if fault := fault_among(filter(None, argument_words(value))):
                    said = {"where": CMAKE_ARGUMENTS, "fault": fault, "fix": _AS_A_LIST}
                    problems.append(Problem.of("malformed-cmake-args", origin=f"-C {name}", **said))
                values += [
                    RawValue(_DEFINE, one, f"-C {name} -D{option}", f"-D{_DEFINE.example}", option)
                    for option, one in split_options(argument_words(value))[0]
                ]
        else:
            problems.append(_unknown_name(name, value))
    return Source(Layer.CONFIG, problems, folder).read(join_lists(values)), handed_on


def _config_value(
    name: str, value: ConfigValue, key: Key, entry: str, problems: list[Problem]
) -> Iterator[RawValue]:
    if key.table and not entry:
        text = value if isinstance(value, str) and "=" in value else key.example
        problem = Problem.of("malformed-name/missing", origin=f"-C {key.name}", key=key.name, assignment=text)
        problems.append(problem)
        return
    assignment = f"{key.name}{'.' if key.table else '='}{key.example}"
    for one in value if isinstance(value, list) else [value]:
        option = getattr(one, "option", "")
        example = f"{option} {key.example}" if option else f"-C {assignment}"
        yield RawValue(key, one, option or f"-C {name}", example, entry)


def argument_words(value: ConfigValue) -> list[str]:
    """Split CMake's arguments as scikit-build-core does: a list given as text is split at semicolons."""
    if isinstance(value, str):
        return value.split(";")
    return value if isinstance(value, list) else []


@cache
def _by_spelling() -> Mapping[str, Key]:
    return {name: key for key in keys_for(Where.COMMAND).values() for name in (key.name, *key.also)}


def own_key(given: str) -> tuple[Key, str] | None:
    bare = bare_name(given)
    spellings = _by_spelling()
    if bare in spellings:
        return spellings[bare], ""
    for name, key in spellings.items():
        if key.table and bare.startswith(f"{name}."):
            return key, bare.removeprefix(f"{name}.")
    return None


# --- TORCHWHEEL_KEY


def read_variables(
    environment: Mapping[str, str], problems: list[Problem], folder: Path | None = None
) -> tuple[Setting, ...]:
    """Read the settings in torchwheel's own variables."""
    by_variable = {key.variable: key for key in keys_for(Where.COMMAND).values()}
    known = [*by_variable, *OTHER_VARIABLES]
    values: list[RawValue] = []
    for variable, text in sorted(environment.items()):
        if not variable.startswith(PREFIX) or not text.strip():
            continue
        if variable in by_variable:
            values += _variable_values(by_variable[variable], text, problems)
        elif variable not in known:
            problems.append(_unknown_variable(variable, text, known))
    return Source(Layer.ENVIRONMENT, problems, folder, rank=_OWN_RANK).read(values)


def _variable_values(key: Key, text: str, problems: list[Problem]) -> Iterator[RawValue]:
    origin, example = f"variable {key.variable}", f"{key.variable}={key.example}"
    if not key.table:
        yield RawValue(key, text, origin, example)
        return

    def refuse(text: str, why: str) -> None:
        problem = Problem.of("malformed-variable", origin=origin, text=text, reason=why, assignment=example)
        problems.append(problem)

    try:
        words = split_words(text, windows=os.name == "nt")
    except ValueError as error:
        refuse(text, str(error))
        return
    for word in words:
        name, equals, value = word.partition("=")
        if equals:
            yield RawValue(key, value, origin, example, name)
        else:
            refuse(word, "it has no =")


def _unknown_name(name: str, value: ConfigValue) -> Problem:
    own = _by_spelling()
    if own_key(bare := name.removeprefix("torchwheel.")):
        meant = _format_example(bare, value)
    elif replacement := read_passthrough().renamed.get(bare_name(name)):
        meant = config_option(*replacement.format(value).split("=", 1))
    else:
        head, dot, entry = name.partition(".")
        tables = [spelling for spelling, key in own.items() if key.table and "." not in spelling]
        theirs = [known.removesuffix(".*") for known in read_passthrough().backends]
        near = nearest_key(name, [*own, *theirs])
        if dot and (table := find_nearest(head, tables)):
            near = f"{table}.{entry}"
        meant = _format_example(near, value) if near else ""
    id = "unknown-setting/near" if meant else "unknown-setting"
    settings = ", ".join(keys_for(Where.COMMAND))
    return Problem.of(id, origin=f"-C {name}", name=name, settings=settings, meant=meant)


def _format_example(key: str, value: ConfigValue) -> str:
    return config_option(key, value) if isinstance(value, str) else f"-C {key}=…"


def _unknown_variable(variable: str, text: str, known: list[str]) -> Problem:
    meant = nearest_key(variable.removeprefix(PREFIX), [name.removeprefix(PREFIX) for name in known])
    id = "unknown-variable/near" if meant else "unknown-variable"
    values = {"variable": variable, "meant": f"{PREFIX}{meant}", "value": text, "variables": ", ".join(known)}
    return Problem.of(id, origin=f"variable {variable}", **values)
