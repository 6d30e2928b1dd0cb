"""What precedes each line of a log, inferred from the log itself.

CI systems, containers, loggers and launchers write something in front of every line: times, steps, names. It is found
by its shape, which most lines share: the same words and punctuation, with other digits. A log without a shared shape
keeps its lines; ``prefixes.toml`` has what stands before single lines only.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from torchwheel.diagnosis.grammar import read_forms
from torchwheel.system.toml import read_toml

SAMPLE_LINES = 200
"""Lines of a block in which a shape is looked for."""
_LONGEST_FRAME = 160
_MOST_TOKENS = 64
_MOST_NESTED, _MOST_PATTERNS = 4, 8
_MOST_PREFIXES = 8
_MOST_SHARE, _NEARLY_ALL = 0.5, 0.9
_FEWEST_LINES = 3
_RARE = 50
"""One line in so many may be unlike the others."""
_LINES_CLASSIFIED = 20
_TOKEN = re.compile(r"\w+|\t|[^\S\t]+|.")
_CLOSERS = frozenset(">|])}")
_ENDS = _CLOSERS | {":", "-"}
_LEVEL = re.compile(
    r"[\[|]?(?:(?i:trace|debug|verbose|info|notice|stdout|stderr|out)|WARN|WARNING|ERROR|ERR|CRITICAL|FATAL|[A-Z])[\]|]?"
    r"|\[(?i:warn|warning|error|err|critical|fatal)\]"
)
_TIME = re.compile(r"\d{1,4}[-/:.]\d{1,2}[-/:.]\d{1,2}|\d:\d\d|\d{9}")
# What a tool writes itself: a place in a source, a test of pytest, or a failure.
_PLACE = re.compile(r"\.\w{1,4}[:(]\d+[:)]|\.py::")
_FAILURE = re.compile(r"(?i:error|fatal|fail|killed|warning|traceback|abort|undefined)")
_PROGRESS = re.compile(r"\[ *\d+(?:/\d+|%)\]")
_MESSAGE_KEYS = ("log", "message", "msg", "MESSAGE", "text", "line", "body")
_DIGITS, _WORD, _BLANK = "0", "a", " "


@dataclass(frozen=True)
class _Shape:
    """The beginning of a line up to a token that may end a frame; ``exact`` has its words, ``general`` has none."""

    exact: tuple[str, ...]
    general: tuple[str, ...]
    text: str
    ends_blank: bool


@dataclass(frozen=True)
class Frames:
    """The frames of the log read so far; the same shapes hold until a block does not have them."""

    patterns: tuple[re.Pattern[str], ...] = field(default=())

    def learn(self, lines: Sequence[str]) -> Frames:
        """Return the frames of these lines: the known ones, if most lines still have them."""
        lines = _sample([line for line in lines if line.strip()])
        if not lines or (self.patterns and sum(map(self._have, lines)) >= _NEARLY_ALL * len(lines)):
            return self
        return Frames(tuple(dict.fromkeys([*_infer(lines), *self.patterns]))[:_MOST_PATTERNS])

    def remove(self, text: str) -> str:
        """Remove the frames and single prefixes of a line; without one the indentation is kept."""
        text = _json_message(text)
        for pattern in self.patterns:
            if match := pattern.match(text):
                text = text[match.end() :]
        for _ in range(_MOST_PREFIXES):
            match = _prefix_pattern().match(text)
            if match is None:
                break
            text = text[match.end() :]
        return text

    def _have(self, line: str) -> bool:
        return any(pattern.match(line) for pattern in self.patterns)


def _sample(lines: Sequence[str]) -> Sequence[str]:
    return lines[:: max(1, len(lines) // SAMPLE_LINES)][: 2 * SAMPLE_LINES]


def _infer(lines: Sequence[str]) -> Iterator[re.Pattern[str]]:
    """Yield the patterns of the frames, the outermost first."""
    lines = [_json_message(line) for line in lines]
    for _ in range(_MOST_NESTED):
        pattern = _shared_pattern(lines)
        if pattern is None:
            return
        yield pattern
        lines = [line[match.end() :] if (match := pattern.match(line)) else line for line in lines]
        lines = [line for line in lines if line.strip()]


def _shared_pattern(lines: Sequence[str]) -> re.Pattern[str] | None:
    """Find the longest shape that most lines begin with."""
    shapes = [list(_shapes(line)) for line in lines]
    exact = Counter(shape.exact for line in shapes for shape in line)
    general = Counter(shape.general for line in shapes for shape in line)
    words = _distinct_words(shapes)
    fewest = max(_FEWEST_LINES - 1, _MOST_SHARE * len(lines))
    found: dict[tuple[str, ...], dict[str, _Shape]] = {}
    for shape in (shape for line in shapes for shape in line):
        if exact[shape.exact] >= fewest:
            found.setdefault(shape.exact, {}).setdefault("", shape)
        if general[shape.general] >= fewest and (
            _TIME.search(shape.text) or words[shape.general] <= max(1, general[shape.general] // 4)
        ):
            found.setdefault(shape.general, {})[shape.text] = shape
    counts = {key: exact[key] if "" in group else general[key] for key, group in found.items()}
    # What nearly all lines have stands before what most of them have.
    for key in sorted(found, key=lambda one: (counts[one] < _NEARLY_ALL * len(lines), -len(one))):
        group, count, is_exact = found[key], counts[key], "" in found[key]
        everywhere = is_exact and count >= max(_FEWEST_LINES, _NEARLY_ALL * len(lines))
        if all(_is_frame(shape.text.strip(), everywhere) for shape in group.values()):
            pattern = _compile(key, lines, next(iter(group.values())).ends_blank)
            if not _is_part_of_messages(pattern, lines):
                return pattern
    return None


def _distinct_words(shapes: Iterable[Iterable[_Shape]]) -> Counter[tuple[str, ...]]:
    """Count the different words that stand in each general shape."""
    return Counter(
        general for _, general in {(shape.exact, shape.general) for line in shapes for shape in line}
    )


def _shapes(line: str) -> Iterator[_Shape]:
    """Yield the shapes with which a line begins, each up to a token that may end a frame."""
    exact: list[str] = []
    general: list[str] = []
    tokens = list(_TOKEN.finditer(line, 0, _LONGEST_FRAME))[:_MOST_TOKENS]
    for number, token in enumerate(tokens):
        text = token[0]
        kind = (
            _DIGITS
            if any(one.isdigit() for one in text)
            else _BLANK
            if text.isspace() and "\t" not in text
            else text
        )
        exact.append(kind)
        general.append(_WORD if kind == text and (text[0].isalpha() or text[0] == "_") else kind)
        if number and _ends_frame([one[0] for one in tokens[max(0, number - 2) : number + 1]]):
            yield _Shape(tuple(exact), tuple(general), line[: token.end()], text.isspace())


def _ends_frame(tokens: Sequence[str]) -> bool:
    *above, before, last = tokens
    if last.isspace():
        return before != "-" or (bool(above) and above[0].isspace())
    return last in _CLOSERS or (last == ":" and before in _CLOSERS)


def _is_frame(text: str, everywhere: bool) -> bool:
    """Whether a shared shape is written by something around the tools, and not by a tool.

    Args:
        everywhere: whether nearly all lines begin with the same words.
    """
    *_, last = words = text.split() or [""]
    if _FAILURE.search(" ".join(word for word in words if not _LEVEL.fullmatch(word))):
        return False
    if re.fullmatch(r"[\w\s]*", text) and not _LEVEL.fullmatch(text):
        return everywhere and text.isdigit()
    if not (last[-1].isdigit() or last[-1] in _ENDS or _LEVEL.fullmatch(last) or not last.isascii()):
        return everywhere and any(one.isdigit() for one in text) and not _PROGRESS.search(text)
    if _TIME.search(text) and not re.search(r"\w:$", text):
        return True
    if _PLACE.search(text):
        return False
    if re.search(r"[^\]>]:$", text):
        return everywhere and _tool_names().isdisjoint(re.findall(r"[^\s/\\:\d][^\s/\\:]*", text))
    return True


def _is_part_of_messages(frame: re.Pattern[str], lines: Sequence[str]) -> bool:
    """Whether a form knows a line with its beginning, and not without it: a tool writes both itself."""
    rests = [(line, line[match.end() :]) for line in lines if (match := frame.match(line))]
    return any(
        form.regex.match(line) and not form.regex.match(rest)
        for line, rest in rests[:_LINES_CLASSIFIED]
        for form in read_forms()
        if not (form.is_general or form.context or form.below)
    )


def _compile(key: Sequence[str], lines: Sequence[str], ends_blank: bool) -> re.Pattern[str]:
    """Make the expression; blanks at its end are as many as nearly all lines have: the rest is indentation."""
    parts = [_as_regex(one) for one in key]
    if not ends_blank:
        return re.compile("".join(parts))
    head, is_closed = re.compile("".join(parts[:-1])), key[-2] in {*_ENDS, "\t"}
    blanks = sorted(
        len(rest) - len(rest.lstrip())
        for line in lines
        if (match := head.match(line))
        and (rest := line[match.end() :]).strip()
        and (is_closed or rest[:1].isspace())
    )
    fewest = blanks[len(blanks) // _RARE] if blanks else 1
    return re.compile(f"{head.pattern}(?:\\s{{{fewest}}}|\\s*$)")


def _as_regex(token: str) -> str:
    if token == _DIGITS:
        return r"[^\W\d]*\d\w*"
    if token == _WORD:
        return r"[^\W\d]+"
    return r"\s+" if token == _BLANK else re.escape(token)


def _json_message(text: str) -> str:
    """Return the message of a JSON object, as log drivers write one in a line; other lines as they are."""
    if not text.startswith("{") or not text.endswith("}"):
        return text
    try:
        table = json.loads(text)
    except (ValueError, RecursionError):
        return text
    found = next((table[key] for key in _MESSAGE_KEYS if isinstance(table.get(key), str)), text)
    return str(found).rstrip("\r\n")


@cache
def _tool_names() -> frozenset[str]:
    """The names with which tools begin their own messages, from the examples of the forms."""
    heads = (line.partition(":")[0] for form in read_forms() for line in form.example.splitlines())
    return frozenset(re.split(r"[\s/\\]+", re.sub(r"\[\d+\]", "", head).strip())[-1] for head in heads)


@cache
def _prefix_pattern() -> re.Pattern[str]:
    table = read_toml(Path(__file__).with_name("prefixes.toml"))
    return re.compile(r"\s*(?:" + "|".join(prefix["regex"] for prefix in table["prefix"]) + ")")
