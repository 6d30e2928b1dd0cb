"""The plan as a command line: what to type to get the same configuration from CMake alone."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import replace

from torchwheel.errors import Problem, TorchwheelError
from torchwheel.host.compiler_cache import CACHE_VARIABLES
from torchwheel.plan.environment import JOB_VARIABLES
from torchwheel.plan.forwarding import INCLUDE_BEFORE, forwarding
from torchwheel.plan.model import BuildFolders, Plan, Variable
from torchwheel.settings import Layer
from torchwheel.settings.config_settings import CMAKE_ARGUMENTS, argument_words
from torchwheel.tree.model import Generation

_GENERATOR = "CMAKE_GENERATOR"
_JOBS = ("CMAKE_BUILD_PARALLEL_LEVEL", "FLASH_ATTENTION_MAX_JOBS", "MAX_JOBS")
_POSIX_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LINE_END, _OBEYED = frozenset("\r\n\0"), frozenset("&|<>^")
_BATCH_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_()]*")


def render_shell(plan: Plan, *, elsewhere: bool = False) -> str:
    """The equivalent cmake command line: for cmd on Windows (as a batch file), else for a POSIX shell.

    It has folders of its own, with a copy of the source: PyTorch's CMake writes into its source, and what is configured
    by hand is no build that torchwheel goes on with.

    Args:
        elsewhere: it is for another machine: no folder of this one is in it, and no number of jobs that fits this one.

    Raises:
        TorchwheelError: a variable's name is none to a shell, or cmd cannot be given a value.
    """
    if plan.jobs.unwatched is not None:
        count = str(plan.jobs.unwatched)
        jobs = (replace(v, value=count) if v.name in JOB_VARIABLES else v for v in plan.variables)
        plan = replace(plan, variables=tuple(jobs))
    if not elsewhere:
        folders = shell_folders(plan)
        here = {str(plan.folders.root): str(folders.root)}
        variables = tuple(replace(v, value=here.get(v.value, v.value)) for v in plan.variables)
        plan = replace(plan, folders=folders, variables=variables)
    windows = plan.host.system == "Windows"
    if problems := [*_unusable_names(plan, windows, elsewhere), *_unquotable(plan, windows, elsewhere)]:
        raise TorchwheelError(problems)
    return _batch(plan, elsewhere) if windows else _posix(plan, elsewhere)


def _unusable_names(plan: Plan, windows: bool, elsewhere: bool) -> Iterator[Problem]:
    name_of = _BATCH_NAME if windows else _POSIX_NAME
    for name in (v.name for v in _variables(plan, elsewhere) if not name_of.fullmatch(v.name)):
        yield Problem.of("unusable-variable-name", origin=f"env.{name}", name=name)


def _unquotable(plan: Plan, windows: bool, elsewhere: bool) -> Iterator[Problem]:
    """What no quotes protect: a line end in a batch file or a comment, and between two quotes what cmd obeys."""
    words = [*_command(plan, elsewhere), *(v.value for v in _variables(plan, elsewhere))] if windows else []
    for text in [*words, *_remarks(plan, elsewhere)]:
        quoted = windows and '"' in text
        if _LINE_END & set(text) or (quoted and (text.count('"') % 2 or _OBEYED & set(text))):
            yield Problem.of("unquotable-value", value=text)


def shell_folders(plan: Plan) -> BuildFolders:
    """The folders that the command line builds in."""
    root = plan.folders.root.with_name(f"{plan.folders.root.name}-shell")
    source = root / "source"
    in_source = plan.tree.generation is Generation.SETUP_PY
    return replace(plan.folders, root=root, source=source, build=(source if in_source else root) / "build")


def _command(plan: Plan, elsewhere: bool) -> list[str]:
    """CMake's arguments, as a list of words."""
    source, build = (".", "build") if elsewhere else (str(plan.folders.source), str(plan.folders.build))
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
    return argument_words(plan.inner_config_settings.get(CMAKE_ARGUMENTS, []))


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
        if not (plan.included and variable.name == INCLUDE_BEFORE) and variable.name not in dropped:
            yield variable


def _bound_to_this_machine(plan: Plan) -> frozenset[str]:
    """Variables and options that hold a folder of this machine, or where none was asked for its jobs or its cache."""
    jobs = _JOBS if plan.settings.jobs is None else ()
    chosen = (d.name for d in plan.defines if d.layer is Layer.DEFAULT)
    launchers = (name for name in chosen if name.endswith("_COMPILER_LAUNCHER") or name == "USE_CCACHE")
    return CACHE_VARIABLES | {*jobs, *launchers}


def _remarks(plan: Plan, elsewhere: bool) -> list[str]:
    if elsewhere:
        return ["run this in the source tree"]
    copied = [f"delete {plan.folders.root} to copy the source anew"]
    if plan.folders.environment is None:
        return copied
    return [
        *copied,
        f"'torchwheel configure' makes the environment {plan.folders.environment}, and so does a build",
    ]


def _posix(plan: Plan, elsewhere: bool) -> str:
    root, source, tree = (
        shlex.quote(str(p)) for p in (plan.folders.root, plan.folders.source, plan.tree.root)
    )
    lines = [f"# {line}" for line in _remarks(plan, elsewhere)]
    lines += [] if elsewhere else [f"[ -d {source} ] || {{ mkdir -p {root} && cp -R {tree} {source}; }}"]
    lines += [f"export {v.name}={_posix_value(v)}" for v in _variables(plan, elsewhere)]
    lines.append(" \\\n  ".join(shlex.quote(word) for word in _command(plan, elsewhere)))
    # In a shell of its own: the next build would take the variables for settings.
    return "\n".join(lines if elsewhere else ["(", *lines, ")"])


def _posix_value(variable: Variable) -> str:
    value = shlex.quote(variable.value)
    return f'{value}"${{{variable.name}:+:${variable.name}}}"' if variable.prepend else value


def _batch(plan: Plan, elsewhere: bool) -> str:
    source, tree = _batch_word(f"{plan.folders.source}\\"), _batch_word(str(plan.tree.root))
    lines = [f"rem {line}" for line in _remarks(plan, elsewhere)]
    lines += [] if elsewhere else [f"if not exist {source} xcopy /E /I /H /Q {tree} {source}"]
    lines += [
        f'set "{v.name}={_percent(v.value)}{f";%{v.name}%" if v.prepend else ""}"'
        for v in _variables(plan, elsewhere)
    ]
    lines.append(" ^\n  ".join(_batch_word(word) for word in _command(plan, elsewhere)))
    return "\n".join(lines if elsewhere else ["setlocal", *lines, "endlocal"])


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
