"""The plan as a command line: what to type to get the same configuration from CMake alone."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from torchwheel.plan.environment import INCLUDE_BEFORE
from torchwheel.plan.forwarding import forwarding
from torchwheel.plan.model import Plan, Variable

_GENERATOR = "CMAKE_GENERATOR"


def render_shell(plan: Plan) -> str:
    """The equivalent cmake command line: for cmd on Windows (as a batch file), else for a POSIX shell."""
    return _batch(plan) if plan.host.system == "Windows" else _posix(plan)


def _command(plan: Plan) -> list[str]:
    """CMake's arguments, as a list of words."""
    words = ["cmake", "-S", str(plan.tree.root), "-B", str(plan.folders.build)]
    arguments = _arguments(plan)
    chosen = any(word.startswith("-G") for word in arguments) or any(
        v.name == _GENERATOR for v in plan.variables
    )
    words += [] if chosen else ["-GNinja"]
    return [*words, *arguments, *(f"-D{name}={value}" for name, value in _defines(plan).items())]


def _arguments(plan: Plan) -> list[str]:
    arguments = plan.inner_config_settings.get("cmake.args", [])
    return arguments.split(";") if isinstance(arguments, str) else arguments


def _defines(plan: Plan) -> dict[str, str]:
    """The plan's options over those that the tree's own backend would set."""
    values = {"source": str(plan.tree.root), "version": str(plan.version)}
    backend = forwarding(plan.tree.generation).backend_defines
    defines = {name: text.format_map(values) for name, text in backend.items()}
    defines.update((define.name, define.value) for define in plan.defines)
    return dict(sorted(defines.items()))


def _variables(plan: Plan) -> Iterator[Variable]:
    """The environment, less the file of options that stand on the command line here."""
    return (v for v in plan.variables if not (plan.file_defines and v.name == INCLUDE_BEFORE))


def _remarks(plan: Plan) -> list[str]:
    if plan.folders.environment is None:
        return []
    return [f"'torchwheel configure' makes the environment {plan.folders.environment}, and so does a build"]


def _posix(plan: Plan) -> str:
    lines = [f"# {line}" for line in _remarks(plan)]
    lines += [f"export {v.name}={_posix_value(v)}" for v in _variables(plan)]
    lines.append(" \\\n  ".join(shlex.quote(word) for word in _command(plan)))
    return "\n".join(lines)


def _posix_value(variable: Variable) -> str:
    value = shlex.quote(variable.value)
    return f'{value}"${{{variable.name}:+:${variable.name}}}"' if variable.prepend else value


def _batch(plan: Plan) -> str:
    lines = [f"rem {line}" for line in _remarks(plan)]
    lines += [
        f'set "{v.name}={_percent(v.value)}{f";%{v.name}%" if v.prepend else ""}"' for v in _variables(plan)
    ]
    lines.append(" ^\n  ".join(_batch_word(word) for word in _command(plan)))
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
