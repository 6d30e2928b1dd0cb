"""One CUDA architecture: a compute capability, perhaps with the suffix of its specific features."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, cast

Suffix = Literal["", "a", "f"]

_DOTTED = re.compile(r"(\d+)\.(\d)([af]?)")


@dataclass(frozen=True, order=True)
class Architecture:
    """A CUDA architecture, ordered by capability and then by suffix.

    A GPU's compute capability is an architecture without a suffix.

    Attributes:
        major: the major revision, 12 in 12.0.
        minor: the minor revision, one digit, 0 in 12.0.
        suffix: ``a`` for code with architecture-specific features, which runs on that capability alone;
            ``f`` for family-specific features, which run on the family's later members too; else empty.
    """

    major: int
    minor: int
    suffix: Suffix = ""

    @classmethod
    def from_dotted(cls, text: str) -> Architecture | None:
        """The architecture that ``text`` spells with a dot (``12.0``, ``9.0a``); None if it spells none.

        Only the form is checked, not whether such hardware exists.
        """
        match = _DOTTED.fullmatch(text)
        if match is None:
            return None
        return cls(int(match[1]), int(match[2]), cast(Suffix, match[3]))

    @property
    def capability(self) -> Architecture:
        """The same architecture without its suffix."""
        return Architecture(self.major, self.minor)

    @property
    def number(self) -> int:
        """Major and minor revision as compilers write them: 120 for 12.0."""
        return self.major * 10 + self.minor

    @property
    def dotted(self) -> str:
        """PyTorch's spelling, ``12.0a``."""
        return f"{self.major}.{self.minor}{self.suffix}"

    @property
    def sm(self) -> str:
        """nvcc's name of the real architecture (SASS), ``sm_120a``."""
        return f"sm_{self.number}{self.suffix}"

    @property
    def compute(self) -> str:
        """nvcc's name of the virtual architecture (PTX), ``compute_120a``."""
        return f"compute_{self.number}{self.suffix}"

    @property
    def label(self) -> str:
        """The SASS's name in a local version label, ``sm120a``: ``_`` would be normalised to ``.`` there."""
        return f"sm{self.number}{self.suffix}"

    @property
    def ptx_label(self) -> str:
        """The PTX's name in a local version label, ``ptx120a``."""
        return f"ptx{self.number}{self.suffix}"

    def __str__(self) -> str:
        return self.dotted
