"""How tools write an error: the form of a line, the class of the error, and what the line names.

The forms are data (``grammar/*.toml``), one for each way in which a compiler, linker, build tool, packaging tool, shell
or the kernel reports that something is wrong. A form catches names: the missing header, the undefined symbol, the
unknown flag. Its class (``grammar/classes.toml``) says what that means and what to do. The catalogue of known failures
stands on top of this and says more where more is known.

Form keys: ``tool``, ``role`` (``error``, ``stopped``: a consequence of an error elsewhere, ``noise``: no failure at
all), ``class``, ``regex`` with named groups (``name2`` fills ``name``), ``context`` (found in a line nearby; its named
groups catch, too), ``below`` (found in a line below; without it the form says nothing), ``unless`` (found in a line
below, and before that one, it makes the form say nothing), ``values`` (captures that the form itself knows),
``following`` (the capture that the next indented line completes), ``in_cmake_error`` (only in a message that CMake
calls an error), ``comes_first`` (what failed is named before its output), ``consequence`` (a product is missing, of a
step that may have failed before), ``example``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from torchwheel._toml import read_toml, shipped_toml
from torchwheel.diagnosis.languages import in_english, plain
from torchwheel.diagnosis.model import Entry, Phase, fill, frozen

Lines = Callable[[], Sequence[str]]

_FOLDER = Path(__file__).with_name("grammar")
_FILES = (
    "compiler_caches",
    "other_compilers",
    "package_managers",
    "compilers",
    "linkers",
    "build_tools",
    "system",
    "python_tools",
)
_QUOTES = "'\"`\u2018\u2019\u00ab\u00bb\u2039\u203a\u201c\u201d\u201e\u300c\u300d\u300e\u300f"
# Said by a tool in its own words; a form that catches more comes first, whichever file it is in.
_GENERAL = frozenset({"tool-error", "python-exception", "cmake-error", "remote-compilation-failed"})
# They tell that another program failed, and quote what it said: an error in what they quote is the cause.
_ANNOUNCING = frozenset({"compiler-does-not-work", "cmake-error", "build-backend-missing"})
# What Python shows of a text in which another program's output stands.
ESCAPED_LINE_END = "\\n"
ESCAPED_LINES = 50
_ESCAPED_BYTES = re.compile(r"(?:\\x[0-9a-f]{2})+")
# Those of words.toml whose alternatives are translations, without other English ones.
_TRANSLATED_WORDS = ("FATAL", "ERROR", "ENOENT", "EACCES", "EROFS")
_TYPOGRAPHIC = str.maketrans(dict.fromkeys((one for one in _QUOTES if not one.isascii()), "'"))
_PLAIN_QUOTES = str.maketrans(dict.fromkeys(_QUOTES, "'"))
_LONGEST_CAPTURE = 400
# Lines of tools that translate, in languages that may do without letters beyond ASCII.
_TRANSLATED = re.compile(r"^(?:\S*(?:sh|make|ld|gcc|g\+\+|cc1plus|git)(?:\[\d+\])?: |\S+:\d+:)")
_NUMBERED = re.compile(r"(?<!\d)\d+$")
# What a CI system or a launcher that nobody knows writes before a line; `prefixes.toml` has the known ones.
_UNKNOWN_PREFIX = re.compile(
    r"(?!(?i:.{0,40}(?:warning|note|hint|info|debug|remark)))[^\s:'\"/\\][^:'\"/\\]{0,40}: (?=\S)"
)
# The rows of Visual Studio's list of errors, as they are copied: severity, code, description, project.
_ERROR_LIST = re.compile(r"(?:Error|Fehler|Erreur|错误|エラー)\t(?P<code>[A-Z]{1,4}\d{4})\t")
_CALLED_NAME = re.compile(r"(?:.*[\s*&])?(?P<name>[^\s(]+)")


class Role(Enum):
    """What a line of that form says about the build."""

    ERROR = "error"
    STOPPED = "stopped"
    NOISE = "noise"


@dataclass(frozen=True)
class Form:
    """One way in which a tool writes a line."""

    tool: str
    role: Role
    error_class: str
    regex: re.Pattern[str]
    context: re.Pattern[str] | None
    below: re.Pattern[str] | None
    unless: re.Pattern[str] | None
    values: Mapping[str, str]
    following: str
    in_cmake_error: bool
    comes_first: bool
    consequence: bool
    example: str


@dataclass(frozen=True)
class Classified:
    """A line whose form is known; ``error_class`` is empty unless its role is ERROR."""

    role: Role
    tool: str
    error_class: str
    captures: Mapping[str, str]
    comes_first: bool = False
    consequence: bool = False

    @property
    def is_general(self) -> bool:
        """Whether the tool's own words are all that is known."""
        return self.error_class in _GENERAL

    @property
    def announces(self) -> bool:
        """Whether it tells that another program failed, whose own words follow."""
        return self.error_class in _ANNOUNCING


def classify(
    text: str, nearby: Lines = tuple, after: Lines = tuple, *, in_cmake_error: bool = False
) -> Classified | None:
    """The form of a line; None for a line that reports nothing.

    Args:
        text: the line, without colours and prefixes.
        nearby: gives the lines around it, for forms that need one of them.
        after: gives the lines after it, for forms whose message stands below.
        in_cmake_error: whether it is part of a message that CMake calls an error.
    """
    # pip, uv and ctest indent what they pass on.
    text = _ERROR_LIST.sub(r"MSVC : error \g<code>: ", in_english_words(plain(text).lstrip()), count=1)
    found = _classified(text, nearby, after, in_cmake_error)
    if (found is None or found.is_general) and (not text.isascii() or _TRANSLATED.match(text)):
        english = in_english(text)
        if english != text:
            return _classified(english, nearby, after, in_cmake_error) or found
    if found is None and (prefix := _UNKNOWN_PREFIX.match(text)):
        rest = _classified(text[prefix.end() :], nearby, after, in_cmake_error)
        found = rest if rest and rest.role is Role.ERROR and not rest.is_general else None
    if (found is None or found.is_general or found.role is Role.STOPPED) and ESCAPED_LINE_END in text:
        return _in_escaped_lines(text) or found
    return found


def _in_escaped_lines(text: str) -> Classified | None:
    """The first error, by more than a tool's own words, among the lines of a text that stands there escaped."""
    for line in text.split(ESCAPED_LINE_END)[:ESCAPED_LINES]:
        found = _classified(_ESCAPED_BYTES.sub(_shown, line).lstrip("b\\t'\" "), tuple, tuple, True)
        if found is not None and found.role is Role.ERROR and not found.is_general:
            return found
    return None


def _shown(escaped: re.Match[str]) -> str:
    """Bytes as Python shows them, ``\\xe2\\x80\\x98``, as the text that they are."""
    return bytes.fromhex(escaped[0].replace("\\x", "")).decode("utf-8", "replace")


def is_noise(text: str, nearby: Lines = tuple, after: Lines = tuple) -> bool:
    """Whether a line looks like an error and is none: one that is ignored, or tried again.

    Args:
        text: the line, without colours and prefixes.
        nearby: gives the lines around it.
        after: gives the lines after it.
    """
    text = text.lstrip()
    return any(form.role is Role.NOISE and _fits(form, text, nearby, after) for form in forms())


# The scanner asks for a line's words, and then for its form.
@lru_cache(maxsize=4)
def in_english_words(text: str) -> str:
    """A line with the few words of ``words.toml`` in English and plain quotes, for patterns that are English."""
    for literals, regex, english in _phrases():
        if any(literal in text for literal in literals):
            text = regex.sub(english, text)
    return _in_english_words(text)


def normalised(text: str) -> str:
    """A line as the catalogue's patterns are written: in English words, with ASCII's quotes."""
    return in_english_words(text).translate(_TYPOGRAPHIC)


@cache
def _phrases() -> tuple[tuple[tuple[str, ...], re.Pattern[str], str], ...]:
    """What finds a whole message in other languages, what its line holds, and that message in English."""
    rows = shipped_toml(_FOLDER / "words.toml")["phrase"]
    return tuple((tuple(row["literals"]), re.compile(row["regex"]), row["english"]) for row in rows)


def _in_english_words(text: str) -> str:
    if not _any_other_word().search(text):
        return text
    translated = text
    for regex, english in _other_words():
        translated = regex.sub(english, translated)
    return plain(translated).translate(_PLAIN_QUOTES)


@cache
def _other_words() -> tuple[tuple[re.Pattern[str], str], ...]:
    """What finds the words of other languages where a message has them: before a colon, or at its end."""
    words = shipped_toml(_FOLDER / "words.toml")["words"]
    return tuple(
        (re.compile(rf"\s?{_after_colon(_others(words[name]))}"), f": {words[name][0]}")
        for name in _TRANSLATED_WORDS
    )


@cache
def _any_other_word() -> re.Pattern[str]:
    """What finds one of them; most lines hold none, and are searched once."""
    words = shipped_toml(_FOLDER / "words.toml")["words"]
    return re.compile(_after_colon([other for name in _TRANSLATED_WORDS for other in _others(words[name])]))


def _others(words: Sequence[str]) -> list[str]:
    return [word for word in words if word.lower() != words[0].lower()]


def _after_colon(words: Sequence[str]) -> str:
    return rf"[:\uff1a] ?(?:{'|'.join(words)})\s?(?=[:\uff1a]|\.?$)"


def _classified(text: str, nearby: Lines, after: Lines, in_cmake_error: bool) -> Classified | None:
    for form in forms():
        if form.in_cmake_error and not in_cmake_error:
            continue
        match = _fits(form, text, nearby, after)
        if match is None:
            continue
        caught = {**_captures(match), **_from_context(form, text, nearby)}
        captures = {**{name: fill(value, caught) for name, value in form.values.items()}, **caught}
        if form.following and not captures.get(form.following):
            below = _message_below(after())
            captures[form.following] = (
                below if form.following == "message" else _unquoted(below.split("  ")[0])
            )
        if header := captures.get("header"):
            captures["package"] = header_package(header)
        if program := captures.get("program"):
            captures["package"] = program_package(program)
        if symbol := captures.get("symbol"):
            captures["owner"] = symbol_owner(symbol)
        captures = {name: text for name, text in captures.items() if text}
        return Classified(
            form.role, form.tool, form.error_class, captures, form.comes_first, form.consequence
        )
    return None


def _fits(form: Form, text: str, nearby: Lines, after: Lines) -> re.Match[str] | None:
    match = form.regex.search(text)
    if match is None:
        return None
    if form.context is not None and not any(form.context.search(line) for line in (text, *nearby())):
        return None
    if form.below is not None or form.unless is not None:
        for line in after():
            if form.unless is not None and form.unless.search(line):
                return None
            if form.below is not None and form.below.search(line):
                return match
        return match if form.below is None else None
    return match


def _from_context(form: Form, text: str, nearby: Lines) -> dict[str, str]:
    """What the line that the form needs nearby names."""
    if form.context is None or not form.context.groups:
        return {}
    found = next(filter(None, map(form.context.search, (text, *nearby()))), None)
    return _captures(found) if found else {}


@cache
def forms() -> tuple[Form, ...]:
    """All forms, in the order in which they are tried: noise, errors that catch most, consequences, the rest."""
    found = [form for name in _FILES for form in _read(read_toml(_FOLDER / f"{name}.toml"))]
    return tuple(sorted(found, key=_order))


@cache
def classes() -> Mapping[str, Entry]:
    """The classes by id, in the form of the catalogue's entries, of which they are the lowest rank."""
    return {
        id: Entry(
            id=id,
            title=row["title"],
            phase=Phase.BUILD,
            rank=0,
            patterns=(),
            context=(),
            details=(),
            otherwise=frozen(row.get("otherwise", {})),
            means=row["means"],
            change=tuple(row["change"]),
            applies=frozen({}),
            links=tuple(filter(None, [row.get("source")])),
            memory=row.get("memory", ""),
        )
        for id, row in read_toml(_FOLDER / "classes.toml")["class"].items()
    }


@cache
def needles() -> tuple[str, ...]:
    """Literals of which every line that a form describes holds one."""
    table = shipped_toml(_FOLDER / "words.toml")
    words = (
        word
        for words in table["words"].values()
        for word in words
        if re.escape(word) == word.replace(" ", r"\ ")
    )
    literals = tuple(dict.fromkeys([*table["prefilter"]["needles"], *words]))
    # Whatever holds a longer literal holds those that are parts of it.
    return tuple(one for one in literals if not any(part in one for part in literals if part != one))


@cache
def _named(kind: str) -> Mapping[str, Mapping[str, str]]:
    """The rows of ``headers.toml`` or ``programs.toml`` by each of their names."""
    rows = read_toml(_FOLDER / f"{kind}s.toml")[kind]
    return {name: row for row in rows for name in row["names"]}


def header_package(header: str) -> str:
    """What brings a header, in words; empty where the table knows neither it nor its folder (``glm/``)."""
    row = _named("header").get(header) or _named("header").get(header.partition("/")[0] + "/")
    return _what_brings(header, row)


def program_package(program: str) -> str:
    """What brings a program, in words; empty where the table does not know it."""
    name = re.split(r"[\\/]", program)[-1]
    row = _named("program").get(name) or _named("program").get(name.lower().removesuffix(".exe"))
    return _what_brings(name, row)


def _what_brings(name: str, row: Mapping[str, str] | None) -> str:
    if row is None:
        return ""
    kinds = (("Debian, Ubuntu", "debian"), ("Fedora", "fedora"), ("conda", "conda"), ("PyPI", "pypi"))
    places = [f"{place}: {row[key]}" for place, key in kinds if row.get(key)]
    return f"install what brings {name} ({'; '.join([*places, *filter(None, [row.get('elsewhere')])])})"


@cache
def _symbols() -> tuple[tuple[re.Pattern[str], str, str], ...]:
    rows = read_toml(_FOLDER / "symbols.toml")["symbol"]
    return tuple(
        (re.compile(row["regex"]), f"{row['library']}: {row['link']}", row.get("cxx11", "")) for row in rows
    )


def symbol_owner(symbol: str) -> str:
    """Which library defines a symbol and how it is linked, in words; empty where the table does not know it.

    A library that is published with both C++ ABIs has a word for names of the new one (``cxx11``).
    """
    match = _CALLED_NAME.match(symbol.partition("(")[0])
    name = match["name"].removeprefix("__imp_") if match else ""
    # Apple's linker shows the underscore that it puts before every name.
    spellings = (name, name.removeprefix("_"))
    owner = next((row for row in _symbols() if any(map(row[0].match, spellings))), None)
    if owner is None:
        return ""
    other_abi = f"; {owner[2]}" if owner[2] and "std::__cxx11" in symbol else ""
    return f" ({name} is of {owner[1]}{other_abi})"


def _read(table: Mapping[str, Any]) -> Iterator[Form]:
    for row in table["form"]:
        yield Form(
            tool=row["tool"],
            role=Role(row.get("role", "error")),
            error_class=row.get("class", ""),
            regex=re.compile(_with_words(row["regex"])),
            context=_pattern(row, "context"),
            below=_pattern(row, "below"),
            unless=_pattern(row, "unless"),
            values=row.get("values", {}),
            following=row.get("following", ""),
            in_cmake_error=row.get("in_cmake_error", False),
            comes_first=row.get("comes_first", False),
            consequence=row.get("consequence", False),
            example=row["example"],
        )


def _pattern(row: Mapping[str, Any], key: str) -> re.Pattern[str] | None:
    return re.compile(row[key]) if key in row else None


@cache
def words() -> Mapping[str, str]:
    """Regular expressions of the few words, by name, that mean the same in each of ``words.toml``'s languages."""
    table = shipped_toml(_FOLDER / "words.toml")["words"]
    return {"Q": _QUOTES, **{name: f"(?:{'|'.join(words)})" for name, words in table.items()}}


def _with_words(regex: str) -> str:
    # French puts a blank before a colon.
    regex = re.sub(r": (?=\{E[A-Z]{3,})", " ?: ", regex)
    return re.sub(r"\{([A-Z]+)\}", lambda match: words().get(match[1], match[0]), regex)


def _order(form: Form) -> int:
    if form.role is Role.NOISE:
        return 0
    if form.role is Role.STOPPED:
        return 2
    return 3 if form.error_class in _GENERAL else 1


def _captures(match: re.Match[str]) -> dict[str, str]:
    """What the groups caught; ``name2`` and ``name3`` stand for ``name`` in other branches of the form."""
    found: dict[str, str] = {}
    for group, text in match.groupdict().items():
        if text:
            found.setdefault(_NUMBERED.sub("", group), text.strip()[:_LONGEST_CAPTURE])
    return found


def _unquoted(name: str) -> str:
    """A name on a line of its own, which ends as a sentence does."""
    return name.rstrip(".").strip(_QUOTES) if name.strip(".")[:1] in _QUOTES else name


def _message_below(lines: Sequence[str]) -> str:
    """What CMake indents below its first line: a paragraph, and the one that follows its colon."""
    said: list[str] = []
    for line in lines:
        if line.strip() and not line.startswith(" "):
            break
        if line.strip():
            said.append(line.strip())
        elif said and not said[-1].endswith(":"):
            break
    return " ".join(said)[:_LONGEST_CAPTURE]
