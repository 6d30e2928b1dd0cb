"""Messages in other languages, turned back into English where this machine's own tools have their catalogues.

gcc, binutils, make, bash, git and glibc translate what they print. Their texts are not part of torchwheel; the
installed catalogues (``*.mo`` below the system's locale folders) are asked at run time for the few messages that
``grammar/messages.toml`` names by their English text. Typography is made plain first, for any language: full-width
colons, the blank before a French colon, the blanks inside guillemets.
"""

from __future__ import annotations

import gettext
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from torchwheel._toml import read_toml

_LOCALES = tuple(dict.fromkeys(map(Path, (gettext.bindtextdomain("torchwheel"), "/usr/share/locale"))))
_FULL_WIDTH = {0xFF1A: ": ", 0xFF0C: ", ", 0xFF1B: "; "}
_BLANKS = re.compile(r"[\u00a0\u202f\u2009]")
_FRENCH_COLON = re.compile(r"(?<=\S) :(?=\s|$)")
_IN_GUILLEMETS = re.compile(r"«([^«»]*)»")
_DIRECTIVE = re.compile(
    r"%(?:(?P<position>\d+)\$)?(?P<flags>[-+# 0]{0,5}[\d.*]{0,9}(?:[hlzq]+|p)?[+#]*)(?P<kind>[a-zA-Z])"
)
# A translation of one or two letters would be found everywhere.
_SHORTEST = 4
_OPENING = "«\u2018„“「『"


@dataclass(frozen=True)
class _Translation:
    literal: str  # in every line that it finds; hundreds of expressions would take long
    regex: re.Pattern[str]
    english: str


def plain(text: str) -> str:
    """A line with the typography of English messages."""
    if text.isascii():
        return text
    text = _BLANKS.sub(" ", text).translate(_FULL_WIDTH)
    if "«" in text.partition("»")[0]:  # German turns them round.
        text = _IN_GUILLEMETS.sub(lambda match: f"«{match[1].strip()}»", text)
    return _FRENCH_COLON.sub(":", text)


def in_english(text: str) -> str:
    """A plain line with every message turned back that a catalogue here translates."""
    # Chosen by the line as it was printed: what one message was turned into must not be taken for another.
    found = [translation for translation in _translations() if translation.literal in text]
    for translation in found:
        text = translation.regex.sub(translation.english, text, count=1)
    return text


@cache
def _translations() -> tuple[_Translation, ...]:
    """Longest first, so that a message that is part of another does not take its place."""
    found = {(one.regex.pattern, one.english): one for one in _all()}
    return tuple(sorted(found.values(), key=lambda one: -len(one.regex.pattern)))


def _all() -> Iterator[_Translation]:
    tables = read_toml(Path(__file__).with_name("grammar") / "messages.toml")["domain"]
    for catalogue_file in (file for folder in _LOCALES for file in folder.glob("*/LC_MESSAGES/*.mo")):
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
                yield _translation(message, text)


def _translation(message: str, text: str) -> _Translation:
    """The expression that finds a translated message, and the English one with what it caught."""
    order: list[str] = []

    def caught(match: re.Match[str]) -> str:
        order.append(match["position"] or str(len(order) + 1))
        return "\0"

    message_text = plain(_DIRECTIVE.sub(caught, text.strip("\n")))
    regex = re.escape(message_text).replace(re.escape("\0"), "(.{1,300}?)")
    # What is quoted ends before the next opening quote, or a line of such quotes would be searched from each.
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
