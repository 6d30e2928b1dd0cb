"""When two spellings of a GPU's name are the same name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_NOT_ALPHANUMERIC = re.compile(r"[^0-9a-z]+")
_MEMORY_SIZE = re.compile(r"\d+gi?b?")


@dataclass(frozen=True)
class Spelling:
    """The words in a GPU's name that do not matter, in lower case.

    Attributes:
        fillers: what may be left out anywhere, even where no space sets it off: ``geforce``, ``generation``.
        variants: whole words that tell apart products of one GPU: ``laptop``.
    """

    fillers: tuple[str, ...]
    variants: frozenset[str]

    def key(self, name: str) -> str:
        """What all spellings of a name share: ``rtx5070`` for ``NVIDIA GeForce RTX 5070``, ``rtx-5070``."""
        return self._joined(_words(name))

    def key_without_variant(self, name: str) -> str:
        """The key without form factor and memory size: ``a100`` of ``NVIDIA A100-SXM4-80GB``."""
        words = _words(name)
        return self._joined([w for w in words if w not in self.variants and not _MEMORY_SIZE.fullmatch(w)])

    def _joined(self, words: Sequence[str]) -> str:
        key = "".join(words)
        for filler in self.fillers:
            key = key.replace(filler, "")
        return key


def _words(name: str) -> list[str]:
    return [word for word in _NOT_ALPHANUMERIC.split(name.lower()) if word]
