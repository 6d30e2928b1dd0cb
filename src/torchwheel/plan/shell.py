"""The plan as a command line for the same configuration with CMake alone."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import replace

from torchwheel.host.compiler_cache import CACHE_VARIABLES
from torchwheel.plan.build_plan import BuildFolders, Plan, Variable
from torchwheel.plan.environment import JOB_VARIABLES
from torchwheel.plan.forwarding import INCLUDE_BEFORE, forwarding_rules
from torchwheel.reporting.errors import Problem, TorchwheelError
from torchwheel.settings import Layer
from torchwheel.settings.config_settings import CMAKE_ARGUMENTS, argument_words
from torchwheel.tree.source_tree import Generation

_GENERATOR = "CMAKE_GENERATOR"
_JOBS = ("CMAKE_BUILD_PARALLEL_LEVEL", "FLASH_ATTENTION_MAX_JOBS", "MAX_JOBS")
_POSIX_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LINE_END, _OBEYED = frozenset("\r\n\0"), frozenset("&|<>^")
_BATCH_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_()]*")


def render_shell(plan: Plan, *, elsewhere: bool = False) -> str:
    """Render the equivalent cmake command line: for cmd on Windows (as a batch file), else for a POSIX shell.

    It uses separate folders with a copy of the source, because PyTorch's CMake writes into its source, and torchwheel
    does not continue a build configured by hand.

    Args:
        elsewhere: for another machine: without folders and the number of jobs of this one.
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
    if problems := [*_unusable_names(plan, windows, elsewhere), *_unquotable_texts(plan, windows, elsewhere)]:
        raise TorchwheelError(problems)
    return _batch_script(plan, elsewhere) if windows else _posix_script(plan, elsewhere)


def _unusable_names(plan: Plan, windows: bool, elsewhere: bool) -> Iterator[Problem]:
    name_of = _BATCH_NAME if windows else _POSIX_NAME
    for name in (v.name for v in _exported_variables(plan, elsewhere) if not name_of.fullmatch(v.name)):
        yield Problem.of("unusable-variable-name", origin=f"env.{name}", name=name)


def _unquotable_texts(plan: Plan, windows: bool, elsewhere: bool) -> Iterator[Problem]:
    """Yield texts that cannot be quoted: line ends in a batch file or comment, cmd's operators between two quotes."""
    words = (
        [*_cmake_command(plan, elsewhere), *(v.value for v in _exported_variables(plan, elsewhere))]
        if windows
        else []
    )
    for text in [*words, *_remark_lines(plan, elsewhere)]:
        quoted = windows and '"' in text
        if _LINE_END & set(text) or (quoted and (text.count('"') % 2 or _OBEYED & set(text))):
            yield Problem.of("unquotable-value", value=text)


def shell_folders(plan: Plan) -> BuildFolders:
    """The folders of the command line's build."""
    root = plan.folders.root.with_name(f"{plan.folders.root.name}-shell")
    source = root / "source"
    in_source = plan.tree.generation is Generation.SETUP_PY
    return replace(plan.folders, root=root, source=source, build=(source if in_source else root) / "build")


def _cmake_command(plan: Plan, elsewhere: bool) -> list[str]:
    source, build = (".", "build") if elsewhere else (str(plan.folders.source), str(plan.folders.build))
    words = ["cmake", "-S", source, "-B", build]
    arguments = _cmake_arguments(plan)
    chosen = any(word.startswith("-G") for word in arguments) or any(
        v.name == _GENERATOR for v in plan.variables
    )
    # CMake's default is make or Visual Studio, and only ninja supports PyTorch's job pools.
    words += [] if chosen else ["-GNinja"]
    dropped = _bound_to_this_machine(plan) if elsewhere else frozenset()
    defines = (
        f"-D{name}={value}" for name, value in _all_defines(plan, source).items() if name not in dropped
    )
    return [*words, *arguments, *defines]


def _cmake_arguments(plan: Plan) -> list[str]:
    return argument_words(plan.inner_config_settings.get(CMAKE_ARGUMENTS, []))


def _all_defines(plan: Plan, source: str) -> dict[str, str]:
    """Merge the plan's options over those that the tree's own backend would set."""
    values = {"source": source, "version": str(plan.version)}
    backend = forwarding_rules(plan.tree.generation).backend_defines
    defines = {name: text.format_map(values) for name, text in backend.items()}
    defines.update((define.name, define.value) for define in plan.defines)
    return dict(sorted(defines.items()))


def _exported_variables(plan: Plan, elsewhere: bool) -> Iterator[Variable]:
    """Yield the environment without the variable for the file of options, which are on the command line here."""
    dropped = _bound_to_this_machine(plan) if elsewhere else frozenset()
    for variable in plan.variables:
        if variable.name != INCLUDE_BEFORE and variable.name not in dropped:
            yield variable


def _bound_to_this_machine(plan: Plan) -> frozenset[str]:
    """Names of variables and options with a folder of this machine, or with its default jobs or cache."""
    jobs = _JOBS if plan.settings.jobs is None else ()
    chosen = (d.name for d in plan.defines if d.layer is Layer.DEFAULT)
    launchers = (name for name in chosen if name.endswith("_COMPILER_LAUNCHER") or name == "USE_CCACHE")
    return CACHE_VARIABLES | {*jobs, *launchers}


def _remark_lines(plan: Plan, elsewhere: bool) -> list[str]:
    if elsewhere:
        return ["run this in the source tree"]
    copied = [f"delete {plan.folders.root} to copy the source anew"]
    if plan.folders.environment is None:
        return copied
    return [
        *copied,
        f"'torchwheel build --configure-only' makes the environment {plan.folders.environment}, and so does a build",
    ]


def _posix_script(plan: Plan, elsewhere: bool) -> str:
    root, source, tree = (
        shlex.quote(str(p)) for p in (plan.folders.root, plan.folders.source, plan.tree.root)
    )
    lines = [f"# {line}" for line in _remark_lines(plan, elsewhere)]
    lines += [] if elsewhere else [f"[ -d {source} ] || {{ mkdir -p {root} && cp -R {tree} {source}; }}"]
    lines += [f"export {v.name}={_posix_value(v)}" for v in _exported_variables(plan, elsewhere)]
    lines.append(" \\\n  ".join(shlex.quote(word) for word in _cmake_command(plan, elsewhere)))
    # In a subshell, because the next build would read the variables as settings.
    return "\n".join(lines if elsewhere else ["(", *lines, ")"])


def _posix_value(variable: Variable) -> str:
    value = shlex.quote(variable.value)
    # An empty entry of PATH means the current folder, so the colon is added only before a value.
    return f'{value}"${{{variable.name}:+:${variable.name}}}"' if variable.prepend else value


def _batch_script(plan: Plan, elsewhere: bool) -> str:
    source, tree = _batch_word(f"{plan.folders.source}\\"), _batch_word(str(plan.tree.root))
    lines = [f"rem {line}" for line in _remark_lines(plan, elsewhere)]
    lines += [] if elsewhere else [f"if not exist {source} xcopy /E /I /H /Q {tree} {source}"]
    lines += [
        f'set "{v.name}={_escape_percent(v.value)}{f";%{v.name}%" if v.prepend else ""}"'
        for v in _exported_variables(plan, elsewhere)
    ]
    lines.append(" ^\n  ".join(_batch_word(word) for word in _cmake_command(plan, elsewhere)))
    # Like the subshell in _posix_script(): the variables must not outlast the build.
    return "\n".join(lines if elsewhere else ["setlocal", *lines, "endlocal"])


def _batch_word(word: str) -> str:
    """Quote a word if needed; a quote in it, and backslashes before quotes, get a backslash.

    https://learn.microsoft.com/cpp/c-language/parsing-c-command-line-arguments
    """
    if not re.search(r'[\s"&|<>^();,]', word):
        return _escape_percent(word)
    escaped = re.sub(r'(\\*)"', r'\1\1\\"', word)
    escaped = re.sub(r"(\\+)$", r"\1\1", escaped)
    return _escape_percent(f'"{escaped}"')


def _escape_percent(text: str) -> str:
    """Escape percent signs, which begin a variable in a batch file (cmd /?)."""
    return text.replace("%", "%%")
