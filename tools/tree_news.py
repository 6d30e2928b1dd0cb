"""List what a PyTorch tree has and torchwheel's tables do not: options, variables, forwarded names, required tools.

Options are those that it declares, and switches that it reads and neither declares nor sets.

    python tools/tree_news.py pytorch

CONTRIBUTING.md says where each of them belongs. Nothing of the tree is run.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import takewhile
from pathlib import Path

from packaging.requirements import Requirement

from torchwheel.plan.defines import forwarding_rules
from torchwheel.preflight.this_machine import IMPORTED_PACKAGES
from torchwheel.pytorch.releases import build_options
from torchwheel.settings.components import read_components
from torchwheel.settings.pytorch_env import pytorch_variables
from torchwheel.system.files import read_beginning
from torchwheel.tree.cmake_options import parse_commands
from torchwheel.tree.source_tree import Tree, read_tree

Found = dict[str, str]
"""Names, each with the file that it stands in."""

_MOST = 1 << 18
_SWITCHES = ("USE_", "BUILD_")
# What runs in a build; the rest of tools/ is PyTorch's own CI.
_SCRIPTS = (
    "setup.py",
    "tools/*.py",
    "tools/setup_helpers/*.py",
    "tools/metadata/*.py",
    "tools/native_aot/*.py",
    "cmake/*.py",
)
_LISTS = ("CMakeLists.txt", "*/CMakeLists.txt", "cmake/**/*.cmake", "torch/csrc/**/CMakeLists.txt")
_FORWARDING = ("cmake/EnvVarForwarding.cmake", "cmake/forward_environment.py", "tools/setup_helpers/cmake.py")
# Copies of CMake's own modules, and what builds for phones.
_NOT_PYTORCHS = ("cmake/Modules_CUDA_fix/", "cmake/Modules/FindCUDAToolkit.cmake", "cmake/iOS.cmake")
_IN_CMAKE = re.compile(r"(?:\$|\bDEFINED )ENV\{(\w+)\}")
_IN_PYTHON = re.compile(
    r"(?:environ(?:\.get)?|getenv|check_env_flag|check_negative_env_flag)\s*[\[(]\s*['\"](\w+)['\"]"
)
_LISTED = re.compile(r"PASSTHROUGH|ALIASES", re.IGNORECASE)
_DICTIONARY = re.compile(r"\b(?:additional_options|low_priority_aliases)\b")
_PATTERNS = re.compile(
    r"(?:startswith|endswith)\(\s*\(([^()]*)\)|(?:PREFIXES|SUFFIXES) = \(([^()]*)\)|\^?\(([A-Z_]+(?:\|[A-Z_]+)+)\)"
)
# Every process has them, or they belong to another system.
_OF_SYSTEMS = frozenset(
    {
        *("CONDA_PREFIX", "HOME", "PATH", "PATHEXT", "PREFIX", "PROGRAMFILES", "PYTHONPATH", "SystemDrive"),
        *("SystemRoot", "TEMP", "TMPDIR", "VCToolsVersion"),
    }
)
_PROGRAMS = frozenset(
    {
        "ccache",
        "sccache",
        "cmake",
        "git",
        "ninja",
        "NAMES",
        "nvcc",
        "nvidia-smi",
        "python",
        "python3",
        "include-what-you-use",
    }
)
_PACKAGES = frozenset({"Threads", "Python", "CUDA", "CUDAToolkit", "torch", "Torch", "ATen", "Caffe2"})


def news(tree: Tree) -> dict[str, Found]:
    """Return what is new in a tree, by what it is."""
    return {
        "options": _options(tree),
        "variables": _variables(tree.root),
        "forwarded names": _forwarded(tree),
        "required tools": _tools(tree),
    }


def _options(tree: Tree) -> Found:
    """Switches of the build; what else a CMake cache holds is for the tree's own files."""
    known = {*build_options(), *(option for component in read_components() for option in component.options)}
    declared = {name: f"{option.file}:{option.line}" for name, option in tree.options.items()}
    found = _read_only(tree) | declared
    return {name: place for name, place in found.items() if name.startswith(_SWITCHES) and name not in known}


def _read_only(tree: Tree) -> Found:
    """Names in conditions that no file sets."""
    read: Found = {}
    set_here: set[str] = set()
    for file, text in _texts(tree.root, _LISTS).items():
        for command in parse_commands(text):
            if command.name in ("if", "elseif"):
                read |= {word: f"{file}:{command.line}" for word in command.arguments if word.isidentifier()}
            elif command.name == "set" or command.name.startswith("find_"):
                set_here |= {*command.arguments[:1]}
    return {name: place for name, place in read.items() if name not in set_here}


def _variables(root: Path) -> Found:
    read = pytorch_variables(windows=False).can_change_build
    found: Found = {}
    for patterns, expression in ((_LISTS, _IN_CMAKE), (_SCRIPTS, _IN_PYTHON)):
        for name, text in _texts(root, patterns).items():
            for variable in expression.findall(text):
                found.setdefault(variable, name)
    return {name: file for name, file in found.items() if not read(name) and name not in _OF_SYSTEMS}


def _forwarded(tree: Tree) -> Found:
    """Names and patterns that the tree takes from the environment, which the tables do not."""
    ways, known = forwarding_rules(tree.generation), pytorch_variables(windows=False)
    patterns = {*ways.environment_prefixes, *ways.environment_suffixes}
    found: Found = {}
    for file, text in _texts(tree.root, _FORWARDING).items():
        names = _listed(text) if file.endswith(".cmake") else _keys(text)
        found |= {n: file for n in names if not (ways.by_environment(n) or known.find_rule(n))}
        for groups in _PATTERNS.findall(text):
            found |= {p: file for p in re.findall(r"\b[A-Z_]+\b", "".join(groups)) if p not in patterns}
    return found


def _listed(text: str) -> Iterator[str]:
    """Yield the names in CMake's lists of forwarded variables; of an alias the variable's."""
    for command in parse_commands(text):
        if command.name == "set" and command.arguments and _LISTED.search(command.arguments[0]):
            yield from (name.partition("=")[0] for name in command.arguments[1:])


def _keys(text: str) -> Iterator[str]:
    """Yield the names in setup.py's dictionaries of forwarded variables."""
    for node in ast.walk(ast.parse(text)):
        named = isinstance(node, ast.Assign | ast.AnnAssign | ast.Expr) and _DICTIONARY.search(
            ast.unparse(node)[:200]
        )
        if not named:
            continue
        for part in ast.walk(node):
            keys = (
                part.keys if isinstance(part, ast.Dict) else part.elts if isinstance(part, ast.Tuple) else ()
            )
            yield from (
                one.value for one in keys if isinstance(one, ast.Constant) and isinstance(one.value, str)
            )


def _tools(tree: Tree) -> Found:
    """Build requirements, programs and packages of CMake without which a build stops."""
    known = {*pytorch_variables().table["package"]["names"], *_PACKAGES}
    found = {
        Requirement(text).name: "pyproject.toml"
        for text in tree.requires
        if Requirement(text).name.lower() not in IMPORTED_PACKAGES
    }
    for file, text in _texts(tree.root, _LISTS).items():
        for command in parse_commands(text):
            first, *rest = command.arguments or ("",)
            if command.name == "find_program" and rest:
                names = takewhile(lambda word: word == "NAMES" or not word.isupper(), rest)
                found |= {name: file for name in names if name not in _PROGRAMS}
            elif command.name == "find_package" and "REQUIRED" in rest and first not in known:
                found[first] = file
    return found


def _texts(root: Path, patterns: Iterable[str]) -> Mapping[str, str]:
    paths = sorted({path for pattern in patterns for path in root.glob(pattern) if path.is_file()})
    names = {path.relative_to(root).as_posix(): path for path in paths}
    return {
        name: read_beginning(path, _MOST)
        for name, path in names.items()
        if not name.startswith(_NOT_PYTORCHS)
    }


def main(arguments: list[str]) -> int:
    """Print the news of a tree."""
    tree = read_tree(Path(arguments[0]))
    print(f"{tree.root} ({tree.version_text}, {tree.generation.value})")
    for kind, found in news(tree).items():
        print(f"\n{kind}: {len(found)} not in the tables")
        for name, file in sorted(found.items()):
            print(f"  {name}  ({file})")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
