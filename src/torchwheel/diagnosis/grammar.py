"""Classify error lines of tools: the form of a line, the class of the error, and the names in the line.

The forms are data (``grammar/*.toml``), one for each way in which a compiler, linker, build tool, packaging tool, shell
or the kernel reports an error. A form captures names: the missing header, the undefined symbol, the unknown flag. Its
class (``grammar/classes.toml``) has the meaning and the fix. The catalogue of known failures takes precedence.

Form keys: ``tool``, ``role`` (``error``, ``stopped``: a consequence of an error elsewhere, ``noise``: no failure at
all), ``class``, ``regex`` with named groups (``name2`` fills ``name``), ``context`` (found in a line nearby; its named
groups catch, too), ``below`` (found in a line below; without it the form says nothing), ``unless`` (found in a line
below, and before that one, it makes the form say nothing), ``values`` (captures that the form itself knows),
``following`` (the capture that the next indented line completes), ``in_cmake_error`` (only in a message that CMake
calls an error), ``comes_first`` (what failed is named before its output), ``consequence`` (a product is missing, of a
step that may have failed before), ``example``; ``patterns`` are several pairs of a regex and its example.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

from torchwheel.diagnosis.failures import (
    GENERAL,
    Entry,
    catalogue_tables,
    fill_captures,
    read_catalogue,
    read_entry,
)
from torchwheel.diagnosis.languages import QUOTES, normalise_line, read_words
from torchwheel.diagnosis.libraries import included_by, read_names
from torchwheel.system.toml import read_toml, shipped_toml

Lines = Callable[[], Sequence[str]]

_FOLDER = Path(__file__).with_name("grammar")
_WORDS = _FOLDER / "words.toml"
# How Python shows the line ends of another program's output in a text.
ESCAPED_LINE_END = "\\n"
ESCAPED_LINES = 50
_NO_TOOLS = ("error", "fatal")
_ESCAPED_BYTES = re.compile(r"(?:\\x[0-9a-f]{2})+")
LONGEST_CAPTURE = 400
MOST_NAMES = 5
"""Maximum names of one kind, such as undefined symbols, to list."""
_NUMBERED = re.compile(r"(?<!\d)\d+$")
_MOST_PREFIXES = 2
_WRAPS = frozenset({"tool-error", "python-exception"})
# Before a single line or a list's item, or what passes a message on, that neither shape nor `prefixes.toml` knows.
_UNKNOWN_PREFIX = re.compile(
    r"[-*\u2022] (?=\w)|(?!(?i:.{0,40}(?:warning|note|hint|info|debug|remark)))[^\s:'\"/\\][^:'\"/\\]{0,60}: (?=\S)"
)
# Rows copied from Visual Studio's error list: severity, code, description, project.
_ERROR_LIST = re.compile(r"(?:Error|Fehler|Erreur|错误|エラー)\t(?P<code>[A-Z]{1,4}\d{4})\t")


class Role(Enum):
    """The meaning of a form for the build."""

    ERROR = "error"
    STOPPED = "stopped"
    NOISE = "noise"


@dataclass(frozen=True)
class Form:
    """The form of a line; the module's text describes the keys.

    Attributes:
        id: the entry of the catalogue or the class of errors; empty unless the role is ERROR.
        needle: of an entry, a literal that every such line contains.
        details: searched as ``context`` is, in lines nearby and in those below as one text, only for their captures.
    """

    id: str
    regex: re.Pattern[str]
    role: Role = Role.ERROR
    tool: str = ""
    needle: str = ""
    context: tuple[re.Pattern[str], ...] = ()
    details: tuple[re.Pattern[str], ...] = ()
    below: re.Pattern[str] | None = None
    unless: re.Pattern[str] | None = None
    values: Mapping[str, str] = field(default_factory=dict)
    following: str = ""
    in_cmake_error: bool = False
    comes_first: bool = False
    consequence: bool = False
    example: str = ""

    @property
    def is_general(self) -> bool:
        """Whether nothing but the tool's own message is known."""
        return self.id in GENERAL

    def complete(self, match: re.Match[str], nearby: Lines, after: Lines) -> dict[str, str] | None:
        """Return the captures of a line and of those around it; None if one is not there that is needed."""
        around = (match.string, *nearby(), "\n".join(after())) if self.context or self.details else ()
        if not all(any(map(regex.search, around)) for regex in self.context) or not self._allows(after):
            return None
        caught: dict[str, str] = {}
        for regex in (*self.context, *self.details):
            caught.update(_read_details(regex, around))
        caught.update(_read_captures(match))
        return {**{name: fill_captures(value, caught) for name, value in self.values.items()}, **caught}

    def _allows(self, after: Lines) -> bool:
        for line in after() if self.below or self.unless else ():
            if self.unless and self.unless.search(line):
                return False
            if self.below and self.below.search(line):
                return True
        return self.below is None


@dataclass(frozen=True)
class Classified:
    """A line with a known form."""

    form: Form
    captures: Mapping[str, str]


def classify(
    text: str, nearby: Lines = tuple, after: Lines = tuple, *, in_cmake_error: bool = False
) -> Classified | None:
    """Classify a line; None for a line that reports nothing.

    Args:
        nearby: returns the lines around it, for forms that need one of them.
        after: returns the lines after it, for forms whose message is below.
    """
    # pip, uv and ctest indent the output that they pass on.
    text = _ERROR_LIST.sub(r"MSVC : error \g<code>: ", normalise_line(text).lstrip(), count=1)
    found = _match_forms(text, nearby, after, in_cmake_error)
    rest = text
    for _ in range(_MOST_PREFIXES):
        prefix = _UNKNOWN_PREFIX.match(rest) if found is None or found.form.id in _WRAPS else None
        if prefix is None:
            break
        rest = rest[prefix.end() :]
        passed_on = _match_forms(rest, nearby, after, in_cmake_error)
        found = passed_on if _is_specific_error(passed_on) else found
    is_vague = found is None or found.form.is_general or found.form.role is Role.STOPPED
    if not is_vague or ESCAPED_LINE_END not in text:
        return found
    inner = (
        _match_forms(_ESCAPED_BYTES.sub(_decode_bytes, line).lstrip("b\\t'\" "), tuple, tuple, True)
        for line in text.split(ESCAPED_LINE_END)[:ESCAPED_LINES]
    )
    return next(filter(_is_specific_error, inner), found)


def _is_specific_error(found: Classified | None) -> bool:
    return found is not None and found.form.role is Role.ERROR and not found.form.is_general


def _decode_bytes(escaped: re.Match[str]) -> str:
    """Decode bytes in Python's escaped form, ``\\xe2\\x80\\x98``."""
    return bytes.fromhex(escaped[0].replace("\\x", "")).decode("utf-8", "replace")


def is_noise(text: str, nearby: Lines, after: Lines) -> bool:
    """Whether a line looks like an error but is ignored or retried."""
    noise = ((form, form.regex.search(text.lstrip())) for form in read_forms() if form.role is Role.NOISE)
    return any(match and form.complete(match, nearby, after) is not None for form, match in noise)


def is_stop(text: str) -> bool:
    """Whether a line reports a step that failed."""
    return any(form.regex.search(text) for form in read_forms() if form.role is Role.STOPPED)


def _match_forms(text: str, nearby: Lines, after: Lines, in_cmake_error: bool) -> Classified | None:
    for form in read_forms():
        if form.in_cmake_error and not in_cmake_error:
            continue
        match = form.regex.search(text)
        captures = form.complete(match, nearby, after) if match else None
        if captures is None:
            continue
        if form.following and not captures.get(form.following):
            below = _message_below(after()) or _line_below(after() if text.rstrip().endswith(":") else ())
            captures[form.following] = below if form.following == "message" else _unquote_name(below)
        if form.id == "include-missing":
            captures.setdefault("include", included_by(captures["name"], captures.get("space", "")))
            captures["header"] = captures["include"].partition(">")[0].partition("<")[2]
        if captures.get("tool", "").lower() in _NO_TOOLS or captures.get("tool", "").isdigit():
            del captures["tool"]
        return Classified(form, {name: text for name, text in captures.items() if text})
    return None


@cache
def read_forms() -> tuple[Form, ...]:
    """Read all forms, in the order of matching: noise, specific errors, consequences, the rest."""
    tables = (read_toml(_FOLDER / f"{name}.toml") for name in shipped_toml(_WORDS)["files"])
    forms = (
        _read_form({**row, "regex": regex, "example": example})
        for table in tables
        for row in table["form"]
        for regex, example in row.get("patterns") or [(row["regex"], row["example"])]
    )
    return tuple(sorted(forms, key=_form_order))


@cache
def read_classes() -> Mapping[str, Entry]:
    """Read the classes by id, as catalogue entries of the lowest rank."""
    rows = read_toml(_FOLDER / "classes.toml")["class"]
    return {id: read_entry(id, row) for id, row in rows.items()}


@cache
def read_causes() -> Mapping[str, Entry]:
    return {**{entry.id: entry for entry in read_catalogue()}, **read_classes()}


@cache
def form_needles() -> tuple[str, ...]:
    """Return literals of which every line with a form contains at least one."""
    table = shipped_toml(_WORDS)
    words = (word for words in table["words"].values() for word in words)
    plain = (word for word in words if re.escape(word) == word.replace(" ", r"\ "))
    literals = tuple(dict.fromkeys([*table["prefilter"]["needles"], *plain]))
    # A literal that contains another one is redundant.
    return tuple(one for one in literals if not any(part in one for part in literals if part != one))


@cache
def catalogue_forms() -> tuple[Form, ...]:
    """Read the forms of all known failures, in the order of their entries."""
    return tuple(
        _read_form({**table, **pattern, "class": table["id"]})
        for table in catalogue_tables()
        for pattern in table["patterns"]
    )


def _read_form(row: Mapping[str, Any]) -> Form:
    given = {key: row[key] for key in row.keys() & {field.name for field in fields(Form)}}
    for key in given.keys() & {"regex", "below", "unless"}:
        given[key] = re.compile(_with_words(row[key]))
    for key in given.keys() & {"context", "details"}:
        given[key] = tuple(map(re.compile, [row[key]] if isinstance(row[key], str) else row[key]))
    return Form(**{**given, "id": row.get("class", ""), "role": Role(row.get("role", "error"))})


def _with_words(regex: str) -> str:
    # French has a blank before a colon.
    regex = re.sub(r": (?=\{E[A-Z]{3,})", " ?: ", regex)
    newer = f"(?:{'|'.join(shipped_toml(_WORDS)['newer_in_std'])})"
    words = {"Q": QUOTES, "NEWSTD": newer, **read_names(), **read_words()}
    return re.sub(r"\{([A-Z]+)\}", lambda match: words.get(match[1], match[0]), regex)


def _form_order(form: Form) -> int:
    return 3 if form.is_general else {Role.NOISE: 0, Role.ERROR: 1, Role.STOPPED: 2}[form.role]


def _read_captures(match: re.Match[str]) -> dict[str, str]:
    """Read the captures; ``name2`` and ``name3`` are ``name`` in other branches of the form."""
    found: dict[str, str] = {}
    for group, text in match.groupdict().items():
        if text:
            found.setdefault(_NUMBERED.sub("", group), text.strip()[:LONGEST_CAPTURE])
    return found


def _read_details(regex: re.Pattern[str], around: Sequence[str]) -> dict[str, str]:
    """Read the captures of the nearest line; a name that ends with an s collects those of all lines."""
    matches = [found for line in around if (found := regex.search(line))]
    captures = _read_captures(matches[0]) if matches else {}
    for name in captures.keys() & {name for name in regex.groupindex if name.endswith("s")}:
        every = dict.fromkeys(match[name] for match in matches if match[name])
        captures[name] = ", ".join(list(every)[:MOST_NAMES])[:LONGEST_CAPTURE]
    return captures


def _unquote_name(name: str) -> str:
    """Unquote a name on a separate line, which may end with a full stop."""
    name = name.partition("  ")[0]
    return re.split(f"[{QUOTES}]", name)[1] if name[:1] and name[0] in QUOTES else name


def _line_below(lines: Sequence[str]) -> str:
    """Return the first words of a message that begins below what announces it."""
    return next((line.strip() for line in lines[:2] if re.search(r"[^\W\d_]{2}", line)), "")[:LONGEST_CAPTURE]


def _message_below(lines: Sequence[str]) -> str:
    """Join the indented message below its first line: a paragraph, and the next one if it ends with a colon."""
    said = ""
    for line in takewhile(lambda line: not line[:1].strip(), lines):
        if (said and not line.strip() and not said.endswith(":")) or is_stop(line.strip()):
            break
        said = f"{said} {line.strip()}".strip()
    return said[:LONGEST_CAPTURE]
