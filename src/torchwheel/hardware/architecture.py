"""CUDA architectures (a compute capability with an optional suffix), and the known ones in `architectures.toml`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, cast

from torchwheel.system.toml import read_toml

Suffix = Literal["", "a", "f"]

_DOTTED = re.compile(r"(\d+)\.(\d)([af]?)")


@dataclass(frozen=True, order=True)
class Architecture:
    """A CUDA architecture; a GPU's compute capability is one without a suffix.

    Attributes:
        suffix: ``a`` for code with architecture-specific features, which runs on that capability alone;
            ``f`` for family-specific features, which also run on the family's later members; else empty.
    """

    major: int
    minor: int
    suffix: Suffix = ""

    @classmethod
    def from_dotted(cls, text: str) -> Architecture | None:
        """Parse an architecture with a dot (``12.0``, ``9.0a``), existing or not; None if ``text`` has another form."""
        match = _DOTTED.fullmatch(text)
        return cls(int(match[1]), int(match[2]), cast(Suffix, match[3])) if match else None

    @classmethod
    def of(cls, text: str) -> Architecture:
        """Parse an architecture with a dot, or raise ValueError."""
        if (architecture := cls.from_dotted(text)) is None:
            raise ValueError(f"{text!r} is no CUDA architecture")
        return architecture

    @property
    def capability(self) -> Architecture:
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
        return f"sm_{self.number}{self.suffix}"

    @property
    def compute(self) -> str:
        return f"compute_{self.number}{self.suffix}"

    @property
    def label(self) -> str:
        """The SASS's name in a local version label, ``sm120a``: ``_`` would be normalised to ``.`` there."""
        return f"sm{self.number}{self.suffix}"

    @property
    def ptx_label(self) -> str:
        return f"ptx{self.number}{self.suffix}"

    def __str__(self) -> str:
        return self.dotted


TURING = Architecture(7, 5)
"""The oldest that CUDA 13 compiles for."""


@dataclass(frozen=True)
class KnownArchitecture:
    capability: Architecture
    family: str
    suffixes: tuple[str, ...]
    tegra: bool
    renamed_to: Architecture | None

    @property
    def spellings(self) -> tuple[str, ...]:
        return tuple(f"{self.capability.dotted}{suffix}" for suffix in ("", *self.suffixes))


@dataclass(frozen=True)
class KnownArchitectures:
    """Every known architecture, in order, and the names of groups, such as ``ampere`` or ``ampere+tegra``.

    Attributes:
        refused: lower-case words that other tools accept instead of a list, with what to write instead.
    """

    by_capability: Mapping[Architecture, KnownArchitecture]
    names: Mapping[str, tuple[Architecture, ...]]
    refused: Mapping[str, str]

    def get(self, architecture: Architecture) -> KnownArchitecture | None:
        return self.by_capability.get(architecture.capability)

    def nearest(self, *readings: Architecture) -> KnownArchitecture:
        """The known architecture whose number is nearest to a reading; the older of two equally near."""
        return min(
            self,
            key=lambda known: min(abs(known.capability.number - reading.number) for reading in readings),
        )

    def current_name(self, capability: Architecture) -> Architecture:
        """The number of that hardware in newer toolkits: 11.0 for 10.1, any other unchanged."""
        known = self.get(capability)
        return known.renamed_to if known is not None and known.renamed_to is not None else capability

    def __iter__(self) -> Iterator[KnownArchitecture]:
        return iter(self.by_capability.values())


@cache
def known_architectures() -> KnownArchitectures:
    data = read_toml(Path(__file__).with_name("architectures.toml"))
    known = [
        KnownArchitecture(
            capability=Architecture.of(row["capability"]),
            family=row["family"],
            suffixes=tuple(row.get("suffixes", ())),
            tegra=row.get("tegra", False),
            renamed_to=Architecture.of(row["renamed-to"]) if "renamed-to" in row else None,
        )
        for group in data["group"]
        for row in group["architectures"]
    ]
    names = {
        name.lower(): tuple(map(Architecture.of, row["means"]))
        for group in data["names"]
        for row in group["groups"]
        for name in (row["name"], *row.get("aliases", ()))
    }
    refused = {word: row["remedy"] for row in data["refused"] for word in row["words"]}
    known.sort(key=lambda entry: entry.capability)
    in_order = dict(sorted(names.items(), key=lambda item: item[1]))
    return KnownArchitectures({entry.capability: entry for entry in known}, in_order, refused)


def is_tegra(capability: Architecture) -> bool:
    known = known_architectures().get(capability)
    return known is not None and known.tegra
