"""Which release of PyTorch a version belongs to."""

from __future__ import annotations

import re
from collections.abc import Iterable

from torchwheel.versions import numbers

_DOTTED = re.compile(r"\d+(?:\.\d+)*")


def nearest_patch(version: str, known: Iterable[str]) -> str | None:
    """The known release of the same minor version that a version is nearest to.

    That is the last one not later than it (``2.14`` alone means the last there is), else the first; None if
    no release of that minor version is known.
    """
    asked = numbers(version)
    if len(asked) < 2:
        return None
    patches = sorted(number[2] for number in map(numbers, known) if number[:2] == asked[:2])
    not_later = [patch for patch in patches if len(asked) == 2 or patch <= asked[2]]
    return f"{asked[0]}.{asked[1]}.{not_later[-1] if not_later else patches[0]}" if patches else None


def is_dotted(text: str) -> bool:
    """Whether the text is numbers with dots between them, such as ``12.6`` or ``9.24.0.43``."""
    return _DOTTED.fullmatch(text) is not None
