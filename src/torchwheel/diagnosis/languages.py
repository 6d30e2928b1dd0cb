"""Translate messages back to English with the catalogues of this machine's own tools.

gcc, binutils, make, bash, git and glibc translate what they print. Their texts are not part of torchwheel; the
installed catalogues (``*.mo`` below the system's locale folders) are read at run time for the messages that
``grammar/messages.toml`` lists by their English text. Typography is normalised first, for any language: full-width
colons, the blank before a French colon, the blanks inside guillemets.
"""

from __future__ import annotations

import gettext
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from torchwheel.system.paths import find_below
from torchwheel.system.toml import read_toml

_LOCALES = tuple(dict.fromkeys(map(Path, (gettext.bindtextdomain("torchwheel"), "/usr/share/locale"))))
_FULL_WIDTH = {0xFF1A: ": ", 0xFF0C: ", ", 0xFF1B: "; "}
_BLANKS = re.compile(r"[\u00a0\u202f\u2009]")
_FRENCH_COLON = re.compile(r"(?<=\S) :(?=\s|$)")
_IN_GUILLEMETS = re.compile(r"«([^«»]*)»")
_DIRECTIVE = re.compile(
    r"%(?:(?P<position>\d+)\$)?(?P<flags>[-+# 0]{0,5}[\d.*]{0,9}(?:[hlzq]+|p)?[+#]*)(?P<kind>[a-zA-Z])"
)
# A translation of one or two letters would match everywhere.
_SHORTEST = 4
_OPENING = "«\u2018„“「『"


@dataclass(frozen=True)
class _Translation:
    literal: str  # in every matching line, because searching with hundreds of expressions would take long
    regex: re.Pattern[str]
    english: str


def plain_typography(text: str) -> str:
    """Convert a line to the typography of English messages."""
    if text.isascii():
        return text
    text = _BLANKS.sub(" ", text).translate(_FULL_WIDTH)
    if "«" in text.partition("»")[0]:  # German uses them the other way round.
        text = _IN_GUILLEMETS.sub(lambda match: f"«{match[1].strip()}»", text)
    return _FRENCH_COLON.sub(":", text)


def in_english(text: str) -> str:
    """Translate every message of a line that an installed catalogue knows."""
    # Choose by the original line, because one translated message must not match another.
    found = [translation for translation in _read_translations() if translation.literal in text]
    for translation in found:
        text = translation.regex.sub(translation.english, text, count=1)
    return text


@cache
def _read_translations() -> tuple[_Translation, ...]:
    """Return the translations, longest first, because one message may be part of another."""
    found = {(one.regex.pattern, one.english): one for one in _find_translations()}
    return tuple(sorted(found.values(), key=lambda one: -len(one.regex.pattern)))


def _find_translations() -> Iterator[_Translation]:
    tables = read_toml(Path(__file__).with_name("grammar") / "messages.toml")["domain"]
    for catalogue_file in (file for folder in _LOCALES for file in find_below(folder, "*/LC_MESSAGES/*.mo")):
        table = next((t for t in tables if re.fullmatch(t["name"], catalogue_file.stem)), None)
        if table is None or catalogue_file.parts[-3].startswith("en"):
            continue
        try:
            with catalogue_file.open("rb") as file:
                catalogue = gettext.GNUTranslations(file)
        except (OSError, ValueError, UnicodeError, IndexError):
            continue
        for message in table["messages"]:
            text = catalogue.gettext(message)
            if text != message and len(text) >= _SHORTEST:
                yield _make_translation(message, text)


def _make_translation(message: str, text: str) -> _Translation:
    """Build the expression for a translated message, and the English one with its captures."""
    order: list[str] = []

    def number_directive(match: re.Match[str]) -> str:
        order.append(match["position"] or str(len(order) + 1))
        return "\0"

    message_text = plain_typography(_DIRECTIVE.sub(number_directive, text.strip("\n")))
    regex = re.escape(message_text).replace(re.escape("\0"), "(.{1,300}?)")
    # A quotation ends before the next opening quote; otherwise a line of quotes would be searched from each.
    regex = re.sub(rf"([{_OPENING}])\(\.", r"\1([^\1]", regex)
    if regex.endswith("?)"):
        regex += r"(?=$|[:;,. ]|\s)"
    count = 0

    def put_back(match: re.Match[str]) -> str:
        nonlocal count
        count += 1
        position = match["position"] or str(count)
        place = order.index(position) + 1 if position in order else 0
        if not place:
            return ""
        return f"'\\g<{place}>'" if "q" in match["flags"] else f"\\g<{place}>"

    english = _DIRECTIVE.sub(put_back, message.strip("\n").replace("\\", "\\\\"))
    return _Translation(max(message_text.split("\0"), key=len), re.compile(regex), english)
