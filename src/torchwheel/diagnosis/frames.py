"""What precedes each line of a log, inferred from the log itself.

CI systems, containers, loggers and launchers write something in front of every line: times, steps, names. It is found
by its shape, which most lines share: the same words and punctuation, with other digits. A log without a shared shape
keeps its lines; ``prefixes.toml`` has what stands before single lines only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain
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
    r"[\[|(<{]{0,2}(?:(?i:trace|debug|verbose|info|notice|stdout|stderr|out)|WARN|WARNING|ERROR|ERR|CRITICAL|FATAL|[A-Z])"
    r"[\]|)>}]{0,2}|[\[(<{]{1,2}(?i:warn|warning|error|err|critical|fatal)[\])>}]{1,2}"
)
_TIME = re.compile(r"\d{1,4}[-/:.]\d{1,2}[-/:.]\d{1,2}|\d:\d\d|\d{9}")
# What a tool writes itself: a place in a source, a test of pytest, or a failure.
_PLACE = re.compile(r"\.\w{1,4}[:(]\d+[:)]|\.py::")
_FAILURE = re.compile(r"(?i:error|fatal|fail|killed|warning|traceback|abort|undefined)")
_PROGRESS = re.compile(r"\[ *\d+(?:/\d+|%)\]")
_MESSAGE_KEYS = ("log", "message", "msg", "MESSAGE", "text", "line", "body")
_DIGITS, _WORD, _BLANK = "0", "a", " "
_REGEXES = {_DIGITS: r"[^\W\d]*\d\w*", _WORD: r"[^\W\d]+", _BLANK: r"\s+"}


_Shape = tuple[str, ...]
"""The tokens with which a line begins, up to one that may end a frame; digits and blanks are alike."""
Frames = tuple[re.Pattern[str], ...]
"""The patterns of the frames of the log read so far, the outermost first."""


def learn_frames(lines: Sequence[str], known: Frames = ()) -> Frames:
    """Return the frames of these lines: the known ones, if most lines still have them."""
    lines = [line for line in lines if line.strip()]
    lines = lines[:: max(1, len(lines) // SAMPLE_LINES)][: 2 * SAMPLE_LINES]
    with_frame = sum(any(pattern.match(line) for pattern in known) for line in lines)
    if not lines or (known and with_frame >= _NEARLY_ALL * len(lines)):
        return known
    return tuple(dict.fromkeys([*_infer(lines), *known]))[:_MOST_PATTERNS]


def remove_frames(text: str, frames: Frames = ()) -> str:
    """Remove the frames and single prefixes of a line; without one the indentation is kept."""
    text = _json_message(text)
    for pattern in (*frames, _prefix_pattern()):
        text = _without(pattern, text)
    return text


def _without(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.match(text)
    return text[match.end() :] if match else text


def _infer(lines: Sequence[str]) -> Iterator[re.Pattern[str]]:
    """Yield the patterns of the frames, the outermost first."""
    lines = [_json_message(line) for line in lines]
    for _ in range(_MOST_NESTED):
        pattern = _shared_pattern(lines)
        if pattern is None:
            return
        yield pattern
        lines = [rest for line in lines if (rest := _without(pattern, line)).strip()]


def _shared_pattern(lines: Sequence[str]) -> re.Pattern[str] | None:
    """Find the longest shape that most lines begin with."""
    texts: dict[_Shape, list[str]] = {}
    for shape, text in chain.from_iterable(map(_shapes, lines)):
        texts.setdefault(shape, []).append(text)
    alike: dict[_Shape, list[_Shape]] = {}
    for shape in texts:
        general = tuple(_WORD if token[0].isalpha() or token[0] == "_" else token for token in shape)
        alike.setdefault(general, []).append(shape)
    fewest = max(_FEWEST_LINES - 1, _MOST_SHARE * len(lines))
    exact = {shape: found for shape, found in texts.items() if len(found) >= fewest}
    candidates: dict[_Shape, list[str]] = {}
    counts: dict[_Shape, int] = {}
    for general, shapes in alike.items():
        if len(shapes) == 1 and shapes != [general]:
            continue
        every = [text for shape in shapes for text in texts[shape]]
        has_few_words = len(shapes) <= max(1, len(every) // 4)
        if len(every) >= fewest and (kept := [one for one in every if has_few_words or _TIME.search(one)]):
            candidates[general], counts[general] = [*dict.fromkeys(kept)], len(every)
    for shape, found in exact.items():
        candidates.setdefault(shape, []).append(found[0])
        counts[shape] = len(found)
    # What nearly all lines have stands before what most of them have.
    for shape in sorted(candidates, key=lambda one: (counts[one] < _NEARLY_ALL * len(lines), -len(one))):
        everywhere = shape in exact and counts[shape] >= max(_FEWEST_LINES, _NEARLY_ALL * len(lines))
        if all(_is_frame(text.strip(), everywhere) for text in candidates[shape]):
            pattern = _compile(shape, lines)
            if not _is_part_of_messages(pattern, lines):
                return pattern
    return None


def _shapes(line: str) -> Iterator[tuple[_Shape, str]]:
    """Yield the shapes with which a line begins, each with its text."""
    shape: list[str] = []
    tokens = list(_TOKEN.finditer(line, 0, _LONGEST_FRAME))[:_MOST_TOKENS]
    for number, token in enumerate(tokens):
        has_digits = any(one.isdigit() for one in token[0])
        is_blank = token[0].isspace() and token[0] != "\t"
        shape.append(_DIGITS if has_digits else _BLANK if is_blank else token[0])
        if number and _ends_frame([one[0] for one in tokens[max(0, number - 2) : number + 1]]):
            yield tuple(shape), line[: token.end()]


def _ends_frame(tokens: Sequence[str]) -> bool:
    *above, before, last = tokens
    if last.isspace():
        return before != "-" or (bool(above) and above[0].isspace())
    return last in _CLOSERS or (last == ":" and before in _CLOSERS)


def _is_frame(text: str, everywhere: bool) -> bool:
    """Whether a shared shape, with the same words everywhere or not, is written by something around the tools."""
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


def _compile(shape: _Shape, lines: Sequence[str]) -> re.Pattern[str]:
    """Make the expression; blanks at its end are as many as nearly all lines have: the rest is indentation."""
    parts = [_REGEXES.get(token) or re.escape(token) for token in shape]
    if not shape[-1].isspace():
        return re.compile("".join(parts))
    head, is_closed = re.compile("".join(parts[:-1])), shape[-2] in {*_ENDS, "\t"}
    blanks = sorted(
        len(rest) - len(rest.lstrip())
        for line in lines
        if (match := head.match(line))
        and (rest := line[match.end() :]).strip()
        and (is_closed or rest[:1].isspace())
    )
    fewest = blanks[len(blanks) // _RARE] if blanks else 1
    return re.compile(f"{head.pattern}(?:\\s{{{fewest}}}|\\s*$)")


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
    prefixes = "|".join(prefix["regex"] for prefix in table["prefix"])
    return re.compile(rf"(?:\s*(?:{prefixes})){{0,{_MOST_PREFIXES}}}")
