"""The CMake language, as far as reading declarations needs it: text in, command invocations out; and quoting.

The grammar is that of cmake-language(7). Nothing is evaluated: a variable reference stays as it is written.
Broken text never raises: an argument that is not closed ends with the text, stray characters are skipped.
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
            argument list are arguments of their own, as they are to CMake.
        line: where the name stands, counted from 1.
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
"""Fails only at the end of the text: on a backslash there, or on a string that ends with one, unclosed."""
_INVOCATION = re.compile(r"(?<![A-Za-z0-9_])([A-Za-z_][A-Za-z0-9_]*)[ \t]*\(|[#\"]|\[=*\[")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_CONTROL = {"n": "\n", "r": "\r", "t": "\t", ";": r"\;"}


def commands(text: str) -> Iterator[Command]:
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
        arguments, position = _arguments(text, match.end())
        yield Command(name.lower(), tuple(arguments), line)


def bracketed(text: str) -> str:
    """A bracket argument: no character in it has a meaning."""
    equals = ""
    # The end must not come early, nor be made up of the text's own end and the bracket.
    while f"]{equals}]" in f"{text}]{equals}":
        equals += "="
    # A line break right after the opening bracket is dropped, so one that is meant needs another before it.
    opening = "\n" if text.startswith("\n") else ""
    return f"[{equals}[{opening}{text}]{equals}]"


def _after_text(text: str, position: int) -> int:
    """The end of the comment, or of the stray string or bracket, that begins at ``position``."""
    token = _TOKEN.match(text, position)
    if token is None:
        return len(text)
    return _bracket(text, token)[1] if token.lastgroup == "bracket" else token.end()


def _arguments(text: str, position: int) -> tuple[list[str], int]:
    """The arguments from just behind the opening parenthesis, and the place behind the closing one."""
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
            content, position = _bracket(text, token)
            if not token.group(kind).startswith("#"):
                arguments.append(content)
    return arguments, position


def _bracket(text: str, opening: re.Match[str]) -> tuple[str, int]:
    """What a bracket argument or comment holds, and the place behind it.

    The end is searched for by hand: a lazy pattern with a back reference takes quadratic time on ``[[[[[[``.
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
