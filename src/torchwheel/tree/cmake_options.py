"""The declarations in a tree's CMake files: options, known names, and the oldest supported CUDA and CMake.

The grammar is that of cmake-language(7). Nothing is evaluated: variable references are left as they are.
Malformed text never raises: an unclosed argument ends with the text, stray characters are skipped.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from torchwheel.system.files import read_beginning
from torchwheel.system.paths import is_file
from torchwheel.versions import at_least


class Command(NamedTuple):
    """One invocation: the name in lower case, the arguments without quotes, brackets and escapes.

    Parentheses inside the argument list are arguments of their own, as in CMake.
    """

    name: str
    arguments: tuple[str, ...]
    line: int


_QUOTED = r'"(?:[^"\\]|\\.)*(?:"|\Z)'
_TOKEN = re.compile(
    rf"""
    \s* (?:
        (?P<comment>   \#(?!\[=*\[)[^\n]* )
      | (?P<bracket>   \#?\[(?P<equals>=*)\[ )
      | (?P<quoted>    {_QUOTED} )
      | (?P<open>      \( )
      | (?P<close>     \) )
      | (?P<unquoted>  (?: [^\s()\#"\\]+ | \\. )  (?: [^\s()\#"\\]+ | \\. | {_QUOTED} )* )
    )
    """,
    re.VERBOSE | re.DOTALL,
)
"""Fails only on a backslash at the end of the text, or an unclosed string that ends with one."""
_INVOCATION = re.compile(r"(?<![A-Za-z0-9_])([A-Za-z_][A-Za-z0-9_]*)[ \t]*\(|[#\"]|\[=*\[")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_CONTROL = {"n": "\n", "r": "\r", "t": "\t", ";": r"\;"}


def parse_commands(text: str) -> Iterator[Command]:
    """All command invocations of a CMake file, in order."""
    text = text.replace("\r\n", "\n")
    position, line, counted = 0, 1, 0
    while match := _INVOCATION.search(text, position):
        name = match.group(1)
        if name is None:
            position = _after_text(text, match.start())
            continue
        line += text.count("\n", counted, match.start())
        counted = match.start()
        arguments, position = _parse_arguments(text, match.end())
        yield Command(name.lower(), tuple(arguments), line)


def quote_bracket(text: str) -> str:
    """Quote text as a bracket argument, in which no character is special."""
    equals = ""
    # The closing bracket must not occur in the text, nor be formed by the end of the text and the bracket.
    while f"]{equals}]" in f"{text}]{equals}":
        equals += "="
    # CMake drops a line break right after the opening bracket, so add one if the text begins with one.
    opening = "\n" if text.startswith("\n") else ""
    return f"[{equals}[{opening}{text}]{equals}]"


def _after_text(text: str, position: int) -> int:
    """The end of the comment, or of the stray string or bracket, that begins at ``position``."""
    token = _TOKEN.match(text, position)
    if token is None:
        return len(text)
    return _read_bracket(text, token)[1] if token.lastgroup == "bracket" else token.end()


def _parse_arguments(text: str, position: int) -> tuple[list[str], int]:
    """The arguments after an opening parenthesis, and the position after the closing one."""
    arguments, depth = list[str](), 1
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            return arguments, len(text)
        position = token.end()
        kind = token.lastgroup
        if kind == "unquoted":
            arguments.append(_unescape(token[kind]))
        elif kind == "quoted":
            arguments.append(_unescape(token[kind][1:].removesuffix('"').replace("\\\n", "")))
        elif kind in ("open", "close"):
            depth += 1 if kind == "open" else -1
            if depth == 0:
                break
            arguments.append(token[kind])
        elif kind == "bracket":
            content, position = _read_bracket(text, token)
            if not token[kind].startswith("#"):
                arguments.append(content)
    return arguments, position


def _read_bracket(text: str, opening: re.Match[str]) -> tuple[str, int]:
    """The content of a bracket argument or comment, and the position after it."""
    # A lazy regular expression with a back reference takes quadratic time on ``[[[[[[``.
    closing = f"]{opening['equals']}]"
    end = text.find(closing, opening.end())
    if end < 0:
        return text[opening.end() :], len(text)
    return text[opening.end() : end].removeprefix("\n"), end + len(closing)


def _unescape(argument: str) -> str:
    return _ESCAPE.sub(lambda match: _CONTROL.get(match[1], match[1]), argument)


@dataclass(frozen=True)
class Option:
    """One CMake cache entry that the tree declares for its users to set.

    Attributes:
        default: as written, so it may refer to variables: ``${CPU_INTEL}``.
        depends: the condition of a ``cmake_dependent_option``, as written (``;`` means and), without which the
            option is forced to its other value; else empty.
    """

    name: str
    type: str
    description: str
    default: str
    depends: str
    file: str
    line: int


@dataclass(frozen=True, kw_only=True)
class Declarations:
    """The declarations in a tree's CMake files.

    Attributes:
        known_names: every identifier in them; any other define has no effect.
        minimum_cuda: the oldest CUDA that they accept: ``11.0``; None if they set no limit.
        old_projects: the projects below third_party that CMake 4 refuses; None if their sources are missing.
    """

    options: Mapping[str, Option]
    known_names: frozenset[str]
    minimum_cuda: str | None = None
    minimum_cmake: str | None = None
    old_projects: tuple[str, ...] | None = None


TOP_FILE = "CMakeLists.txt"

_OPTION = re.compile(r"option\s*\(")
_CACHE_ENTRY = re.compile(r"\bCACHE\s+(?:BOOL|STRING|PATH|FILEPATH)\b")
_SUBDIRECTORY = re.compile(
    r"^[ \t]*add_subdirectory[ \t]*\([ \t]*([\w./-]+)", re.ASCII | re.IGNORECASE | re.MULTILINE
)
_THIRD_PARTY = re.compile(
    r"^[ \t]*add_subdirectory[ \t]*\([ \t]*[\"']?[^\s\"')]*\bthird_party/([\w./-]+)",
    re.ASCII | re.IGNORECASE | re.MULTILINE,
)
_LEAST_POLICY, _OLDEST_POLICY = "CMAKE_POLICY_VERSION_MINIMUM", "3.5"
_NOT_ITS_OWN = ("third_party/", "../", "/")
_MOST_LISTS = 1_000
_MOST_CHARACTERS = 1 << 18  # the largest file of PyTorch 2.6.0 has 87,000
_COMMENT = re.compile(r"#[^\n]*")
_NAME = re.compile(r"[A-Za-z_]\w{2,}", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)
_VERSION = re.compile(r"\d+(?:\.\d+)*", re.ASCII)
_CUDA_VERSION_VARIABLES = ("CUDA_VERSION", "CUDA_VERSION_STRING", "CUDAToolkit_VERSION")
_BLOCKS = frozenset({"if", "foreach", "while", "function", "macro", "block"})
_BLOCK_ENDS = frozenset(f"end{block}" for block in _BLOCKS)


def read_declarations(root: Path) -> Declarations:
    """Read a tree's CMakeLists.txt, those that it adds, and ``cmake/**/*.cmake``, without other projects' options."""
    lists = _read_list_files(root)
    files = sorted((root / "cmake").rglob("*.cmake"))
    modules = {path.relative_to(root).as_posix(): read_beginning(path, _MOST_CHARACTERS) for path in files}
    # The first declaration of a name wins: the top-level files come before a library's folder.
    texts = {name: lists[name] for name in lists if name == TOP_FILE} | modules | lists
    options: dict[str, Option] = {}
    for name, text in texts.items():
        if _OPTION.search(text.lower()) or _CACHE_ENTRY.search(text):
            options = _options_of(name, parse_commands(text)) | options
    known_names = frozenset(name for text in texts.values() for name in _NAME.findall(_COMMENT.sub("", text)))
    return Declarations(
        options=MappingProxyType(dict(sorted(options.items()))),
        known_names=known_names,
        minimum_cuda=_minimum_cuda(texts.get("cmake/public/cuda.cmake", "")),
        minimum_cmake=minimum_cmake(texts.get(TOP_FILE, "")),
        old_projects=_old_projects(root, texts.values(), known_names),
    )


def _read_list_files(root: Path) -> dict[str, str]:
    """Read CMakeLists.txt and those that it adds; text by relative path, in CMake's order."""
    found: dict[str, str] = {}
    waiting, tried = [TOP_FILE], set[str]()
    while waiting and len(tried) < _MOST_LISTS:
        name = waiting.pop(0)
        if name in tried or name.startswith(_NOT_ITS_OWN):
            continue
        tried.add(name)
        if not is_file(root / name):
            continue
        found[name] = read_beginning(root / name, _MOST_CHARACTERS)
        folder = posixpath.dirname(name)
        for added in _SUBDIRECTORY.findall(found[name]):
            waiting.append(posixpath.normpath(posixpath.join(folder, added, TOP_FILE)))
    return found


def _options_of(file: str, invocations: Iterable[Command]) -> dict[str, Option]:
    """The options of one CMake file; of several declarations of one, that outside all blocks, else the last.

    The one outside applies on every machine; ``else()`` has the usual case, unless that of ``if(NOT ...)``.
    """
    always: dict[str, Option] = {}
    in_block: dict[str, Option] = {}
    blocks: list[Command] = []
    for command in invocations:
        if command.name in _BLOCKS:
            blocks.append(command)
        elif command.name in _BLOCK_ENDS:
            del blocks[-1:]
        elif option := _parse_option(command, file):
            if not blocks:
                always.setdefault(option.name, option)
            elif blocks[-1].arguments[:1] != ("NOT",) or option.name not in in_block:
                in_block[option.name] = option
    return in_block | always


def _parse_option(command: Command, file: str) -> Option | None:
    """The option that a command declares; None for other commands and computed names."""
    if not command.arguments or not _VARIABLE.fullmatch(command.arguments[0]):
        return None
    if command.name == "option":
        name, description, default, *_ = (*command.arguments, "", "")
        return Option(name, "BOOL", description, default or "OFF", "", file, command.line)
    if command.name == "cmake_dependent_option" and len(command.arguments) >= 4:
        name, description, default, depends = command.arguments[:4]
        return Option(name, "BOOL", description, default, depends, file, command.line)
    return _cache_entry(command, file) if command.name == "set" else None


def _cache_entry(command: Command, file: str) -> Option | None:
    """The option of ``set(NAME value... CACHE TYPE "doc")``; None for INTERNAL and FORCE, which users cannot set."""
    name, *values = command.arguments
    if "CACHE" not in values:
        return None
    at = values.index("CACHE")
    kind, description, *rest = (*values[at + 1 :], "", "")
    if kind not in ("BOOL", "STRING", "PATH", "FILEPATH") or "FORCE" in rest:
        return None
    return Option(name, kind, description, ";".join(values[:at]), "", file, command.line)


def minimum_cmake(text: str) -> str | None:
    """The version in a CMakeLists.txt's ``cmake_minimum_required``; None without one."""
    version = _VERSION.match(_required_cmake(text))
    return version.group() if version else None


def _required_cmake(text: str) -> str:
    """The first ``cmake_minimum_required`` of a CMakeLists.txt: a version, or two with dots between; empty for none."""
    for command in parse_commands(text):
        if command.name == "cmake_minimum_required" and command.arguments[:1] == ("VERSION",):
            return "".join(command.arguments[1:2])
    return ""


def project_version(text: str) -> str | None:
    """The version in a CMakeLists.txt's ``project``; None without one or if it is a variable."""
    for command in parse_commands(text):
        if command.name == "project" and "VERSION" in command.arguments:
            version = "".join(command.arguments[command.arguments.index("VERSION") + 1 :][:1])
            return version if _VERSION.fullmatch(version) else None
    return None


def _old_projects(root: Path, texts: Iterable[str], known_names: frozenset[str]) -> tuple[str, ...] | None:
    """The third-party projects that CMake 4 refuses; None if their sources are missing.

    A tree that raises their minimum policy version, as PyTorch does since 2.7, has none.
    Source: https://cmake.org/cmake/help/latest/command/cmake_minimum_required.html
    """
    added = sorted({name for text in texts for name in _THIRD_PARTY.findall(_COMMENT.sub("", text))})
    files = {name: root / "third_party" / name / TOP_FILE for name in added}
    # The newest policy version that each names.
    policies = {
        name: _required_cmake(read_beginning(file)).rpartition("...")[2]
        for name, file in files.items()
        if is_file(file)
    }
    if not policies:
        return None
    if _LEAST_POLICY in known_names:
        return ()
    old = tuple(
        name for name, version in policies.items() if version and not at_least(version, _OLDEST_POLICY)
    )
    # A missing project may be an old one, so without all of them only a found one is an answer.
    return old if old or len(policies) == len(added) else None


def _minimum_cuda(text: str) -> str | None:
    """The version in an ``if(CUDA_VERSION VERSION_LESS x)`` that is followed by a fatal error."""
    for check, reaction in pairwise(parse_commands(text)):
        if check.name != "if" or len(check.arguments) != 3 or reaction.arguments[:1] != ("FATAL_ERROR",):
            continue
        variable, operator, version = check.arguments
        if variable in _CUDA_VERSION_VARIABLES and operator == "VERSION_LESS" and _VERSION.fullmatch(version):
            return version
    return None
