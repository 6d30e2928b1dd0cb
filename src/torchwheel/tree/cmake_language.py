"""Parse CMake files into command invocations, and quote text for them.

The grammar is that of cmake-language(7). Nothing is evaluated: variable references are left as they are.
Malformed text never raises: an unclosed argument ends with the text, stray characters are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple


class Command(NamedTuple):
    """One command invocation.

    Attributes:
        name: in lower case, since CMake ignores the case of command names.
        arguments: their text, without quotes or brackets and with escapes resolved; parentheses inside the
            argument list are separate arguments, as in CMake.
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
    """Parse the arguments after an opening parenthesis; also return the position after the closing one."""
    arguments: list[str] = []
    depth = 1
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            return arguments, len(text)
        position = token.end()
        kind = token.lastgroup
        if kind == "unquoted":
            arguments.append(_unescape(token.group(kind)))
        elif kind == "quoted":
            arguments.append(_unescape(token.group(kind)[1:].removesuffix('"').replace("\\\n", "")))
        elif kind == "open":
            depth += 1
            arguments.append("(")
        elif kind == "close":
            depth -= 1
            if depth == 0:
                break
            arguments.append(")")
        elif kind == "bracket":
            content, position = _read_bracket(text, token)
            if not token.group(kind).startswith("#"):
                arguments.append(content)
    return arguments, position


def _read_bracket(text: str, opening: re.Match[str]) -> tuple[str, int]:
    """Return the content of a bracket argument or comment, and the position after it.

    Not a regular expression: a lazy one with a back reference takes quadratic time on ``[[[[[[``.
    """
    closing = f"]{opening.group('equals')}]"
    end = text.find(closing, opening.end())
    if end < 0:
        return text[opening.end() :], len(text)
    return text[opening.end() : end].removeprefix("\n"), end + len(closing)


def _unescape(argument: str) -> str:
    if "\\" not in argument:
        return argument
    return _ESCAPE.sub(lambda match: _CONTROL.get(match.group(1), match.group(1)), argument)
