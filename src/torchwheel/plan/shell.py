"""The plan as a command line: what to type to get the same configuration from CMake alone."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from torchwheel.plan.environment import INCLUDE_BEFORE
from torchwheel.plan.forwarding import forwarding
from torchwheel.plan.model import Plan, Variable

_GENERATOR = "CMAKE_GENERATOR"
_JOBS = ("CMAKE_BUILD_PARALLEL_LEVEL", "FLASH_ATTENTION_MAX_JOBS", "MAX_JOBS")


def render_shell(plan: Plan, *, elsewhere: bool = False) -> str:
    """The equivalent cmake command line: for cmd on Windows (as a batch file), else for a POSIX shell.

    Args:
        plan: the plan.
        elsewhere: it is for another machine: no folder of this one is in it, and no number of jobs that fits this one.
    """
    return _batch(plan, elsewhere) if plan.host.system == "Windows" else _posix(plan, elsewhere)


def _command(plan: Plan, elsewhere: bool) -> list[str]:
    """CMake's arguments, as a list of words."""
    source, build = (".", "build") if elsewhere else (str(plan.tree.root), str(plan.folders.build))
    words = ["cmake", "-S", source, "-B", build]
    arguments = _arguments(plan)
    chosen = any(word.startswith("-G") for word in arguments) or any(
        v.name == _GENERATOR for v in plan.variables
    )
    words += [] if chosen else ["-GNinja"]
    dropped = _bound_to_this_machine(plan) if elsewhere else frozenset()
    defines = (f"-D{name}={value}" for name, value in _defines(plan, source).items() if name not in dropped)
    return [*words, *arguments, *defines]


def _arguments(plan: Plan) -> list[str]:
    arguments = plan.inner_config_settings.get("cmake.args", [])
    return arguments.split(";") if isinstance(arguments, str) else arguments


def _defines(plan: Plan, source: str) -> dict[str, str]:
    """The plan's options over those that the tree's own backend would set."""
    values = {"source": source, "version": str(plan.version)}
    backend = forwarding(plan.tree.generation).backend_defines
    defines = {name: text.format_map(values) for name, text in backend.items()}
    defines.update((define.name, define.value) for define in plan.defines)
    return dict(sorted(defines.items()))


def _variables(plan: Plan, elsewhere: bool) -> Iterator[Variable]:
    """The environment, less the file of options that stand on the command line here."""
    dropped = _bound_to_this_machine(plan) if elsewhere else frozenset()
    for variable in plan.variables:
        if not (plan.file_defines and variable.name == INCLUDE_BEFORE) and variable.name not in dropped:
            yield variable


def _bound_to_this_machine(plan: Plan) -> frozenset[str]:
    """Variables and options that hold a folder of this machine, or its number of jobs where none was asked for."""
    jobs = _JOBS if plan.settings.jobs is None else ()
    return frozenset({"CCACHE_BASEDIR", "CCACHE_NOHASHDIR", *jobs})


def _remarks(plan: Plan, elsewhere: bool) -> list[str]:
    if elsewhere:
        return ["run this in the source tree"]
    if plan.folders.environment is None:
        return []
    return [f"'torchwheel configure' makes the environment {plan.folders.environment}, and so does a build"]


def _posix(plan: Plan, elsewhere: bool) -> str:
    lines = [f"# {line}" for line in _remarks(plan, elsewhere)]
    lines += [f"export {v.name}={_posix_value(v)}" for v in _variables(plan, elsewhere)]
    lines.append(" \\\n  ".join(shlex.quote(word) for word in _command(plan, elsewhere)))
    return "\n".join(lines)


def _posix_value(variable: Variable) -> str:
    value = shlex.quote(variable.value)
    return f'{value}"${{{variable.name}:+:${variable.name}}}"' if variable.prepend else value


def _batch(plan: Plan, elsewhere: bool) -> str:
    lines = [f"rem {line}" for line in _remarks(plan, elsewhere)]
    lines += [
        f'set "{v.name}={_percent(v.value)}{f";%{v.name}%" if v.prepend else ""}"'
        for v in _variables(plan, elsewhere)
    ]
    lines.append(" ^\n  ".join(_batch_word(word) for word in _command(plan, elsewhere)))
    return "\n".join(lines)


def _batch_word(word: str) -> str:
    """A word in quotes where it needs them; a quote in it, and backslashes before quotes, get a backslash.

    https://learn.microsoft.com/cpp/c-language/parsing-c-command-line-arguments
    """
    if not re.search(r'[\s"&|<>^();,]', word):
        return _percent(word)
    escaped = re.sub(r'(\\*)"', r'\1\1\\"', word)
    escaped = re.sub(r"(\\+)$", r"\1\1", escaped)
    return _percent(f'"{escaped}"')


def _percent(text: str) -> str:
    """A percent sign in a batch file would begin a variable (cmd /?)."""
    return text.replace("%", "%%")
