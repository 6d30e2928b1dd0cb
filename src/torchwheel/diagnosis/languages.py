"""Translate words and whole messages of other languages to English (``grammar/words.toml``).

The table is all that is used: the message catalogues that a machine has installed would make one log's diagnosis
depend on where it is read. Typography is normalised, too: full-width colons, the blank before a French colon, the
blanks inside guillemets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path

from torchwheel.system.toml import shipped_toml

QUOTES = "'\"`\u2018\u2019\u00ab\u00bb\u2039\u203a\u201c\u201d\u201e\u300c\u300d\u300e\u300f"
_WORDS = Path(__file__).with_name("grammar") / "words.toml"
# The entries of words.toml whose alternatives are only translations.
_TRANSLATED_WORDS = ("FATAL", "ERROR", "ENOENT", "EACCES", "EROFS", "ENOSPC")
_TYPOGRAPHIC = {
    **{ord(one): "'" for one in QUOTES if not one.isascii()},
    **dict.fromkeys((0xA0, 0x202F, 0x2009), " "),
    0xFF1A: ": ",
    0xFF0C: ", ",
    0xFF1B: "; ",
}
_FRENCH_COLON = re.compile(r"(?<=\S) :(?=\s|$)")
_IN_GUILLEMETS = re.compile(r"«([^«»]*)»")


# The scanner asks for a line's words, and then for its form.
@lru_cache(maxsize=4)
def normalise_line(text: str) -> str:
    """Convert a line to the form of all patterns: English words, in the typography of English messages."""
    text = _plain_typography(text)
    for row in shipped_toml(_WORDS)["phrase"]:
        if any(literal in text for literal in row["literals"]):
            text = re.sub(row["regex"], row["english"], text)
    words = shipped_toml(_WORDS)["words"]
    translated = _other_words().sub(lambda match: f": {words[match.lastgroup][0]}", text)
    return text if translated == text else _plain_typography(translated)


def _plain_typography(text: str) -> str:
    if text.isascii():
        return text
    if "«" in text.partition("»")[0]:  # German uses them the other way round.
        text = _IN_GUILLEMETS.sub(lambda match: f"«{match[1].strip()}»", text)
    return _FRENCH_COLON.sub(":", text.translate(_TYPOGRAPHIC))


@cache
def read_words() -> Mapping[str, str]:
    """Regular expressions by name, each for one word in all languages."""
    return {name: f"(?:{'|'.join(words)})" for name, words in shipped_toml(_WORDS)["words"].items()}


@cache
def _other_words() -> re.Pattern[str]:
    """One pattern for words of other languages at their usual place: before a colon, or at the end."""
    table = shipped_toml(_WORDS)["words"]
    groups = (
        f"(?P<{name}>{'|'.join(word for word in table[name] if word.lower() != table[name][0].lower())})"
        for name in _TRANSLATED_WORDS
    )
    return re.compile(rf"\s?[:\uff1a] ?(?:{'|'.join(groups)})\s?(?=[:\uff1a]|\.?$)")
