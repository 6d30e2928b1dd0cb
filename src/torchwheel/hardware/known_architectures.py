"""Which CUDA architectures exist: `architectures.toml`, checked on loading."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from torchwheel._toml import read_toml
from torchwheel.hardware._data_file import DataErrors
from torchwheel.hardware.architecture import Architecture

_FILE = Path(__file__).with_name("architectures.toml")

_ARCHITECTURE_KEYS = frozenset(
    {"capability", "family", "suffixes", "cpp-extension", "tegra", "renamed-to", "note", "source"}
)
_NAME_KEYS = frozenset({"name", "aliases", "means", "note", "source"})
_REFUSED_KEYS = frozenset({"words", "remedy", "source"})


@dataclass(frozen=True)
class KnownArchitecture:
    """What is known of one compute capability.

    Attributes:
        capability: the architecture without a suffix.
        family: the generation's name, such as ``Blackwell``.
        suffixes: the forms that compilers have beside the plain one, of ``a`` and ``f``.
        cpp_extension_suffixes: the forms that torch.utils.cpp_extension takes; ``""`` is the plain one.
        tegra: whether this is the integrated GPU of Tegra and Jetson.
        renamed_to: what newer toolkits call the same hardware, or None.
        source: the public document that says so.
    """

    capability: Architecture
    family: str
    suffixes: tuple[str, ...]
    cpp_extension_suffixes: tuple[str, ...]
    tegra: bool
    renamed_to: Architecture | None
    source: str

    @property
    def spellings(self) -> tuple[str, ...]:
        """Every form of it that exists, dotted: ``("12.0", "12.0a", "12.0f")``."""
        return tuple(f"{self.capability.dotted}{suffix}" for suffix in ("", *self.suffixes))


@dataclass(frozen=True)
class KnownArchitectures:
    """Every known architecture, in order, and the names that stand for several.

    Attributes:
        by_capability: from the capability without suffix.
        names: lower-case name, ``ampere`` or ``ampere+tegra``, to the capabilities it means, in order.
        refused: lower-case words that other tools take instead of a list, with what to write instead.
    """

    by_capability: Mapping[Architecture, KnownArchitecture]
    names: Mapping[str, tuple[Architecture, ...]]
    refused: Mapping[str, str]

    def get(self, architecture: Architecture) -> KnownArchitecture | None:
        """What is known of an architecture, whatever its suffix; None if there is none of that number."""
        return self.by_capability.get(architecture.capability)

    def nearest(self, *readings: Architecture) -> KnownArchitecture:
        """The known architecture whose number is nearest to a reading; of two as near, the older."""
        return min(
            self,
            key=lambda known: min(abs(known.capability.number - reading.number) for reading in readings),
        )

    def current_name(self, capability: Architecture) -> Architecture:
        """The number by which newer toolkits know that hardware: 11.0 for 10.1, any other unchanged."""
        known = self.get(capability)
        return known.renamed_to if known is not None and known.renamed_to is not None else capability

    def __iter__(self) -> Iterator[KnownArchitecture]:
        return iter(self.by_capability.values())


@cache
def known_architectures() -> KnownArchitectures:
    """The architectures that torchwheel ships knowledge of."""
    return load_architectures(_FILE)


def load_architectures(path: Path) -> KnownArchitectures:
    """Read and check a file like `architectures.toml`.

    Raises:
        TorchwheelError: the file is unreadable, or entries are wrong; all of them are named.
    """
    data = read_toml(path)
    errors = DataErrors(str(path))
    by_capability = _architectures(data.get("architecture", []), errors)
    names = _names(data.get("name", []), by_capability, errors)
    refused = _refused(data.get("refused", []), errors)
    errors.raise_if_any()
    return KnownArchitectures(by_capability, names, refused)


def _architectures(
    rows: list[Mapping[str, Any]], errors: DataErrors
) -> dict[Architecture, KnownArchitecture]:
    found: dict[Architecture, KnownArchitecture] = {}
    for row in rows:
        entry = f"architecture {row.get('capability')!r}"
        errors.unknown_keys(row, _ARCHITECTURE_KEYS, entry)
        known = _architecture(row, entry, errors)
        if known.capability in found:
            errors.add(f"{entry}: is there twice", "keep one of them")
        elif found and known.capability < next(reversed(found)):
            errors.add(f"{entry}: is out of order", "sort the architectures by capability")
        found[known.capability] = known
    for known in found.values():
        if known.renamed_to is not None and known.renamed_to not in found:
            errors.add(f"architecture {known.capability.dotted!r}: there is no {known.renamed_to.dotted!r}")
    return found


def _architecture(row: Mapping[str, Any], entry: str, errors: DataErrors) -> KnownArchitecture:
    suffixes = errors.strings(row, "suffixes", entry)
    cpp_extension = errors.strings(row, "cpp-extension", entry)
    for suffix in suffixes:
        if suffix not in ("a", "f"):
            errors.add(f"{entry}: there is no suffix {suffix!r}", "use 'a' and 'f' only")
    for suffix in cpp_extension:
        if suffix not in ("", *suffixes):
            errors.add(f"{entry}: 'cpp-extension' has {suffix!r}, which 'suffixes' has not")
    renamed_to = errors.field(row, "renamed-to", str, entry, default="")
    return KnownArchitecture(
        capability=errors.architecture(errors.field(row, "capability", str, entry), entry),
        family=errors.field(row, "family", str, entry),
        suffixes=suffixes,
        cpp_extension_suffixes=cpp_extension,
        tegra=errors.field(row, "tegra", bool, entry, default=False),
        renamed_to=errors.architecture(renamed_to, entry) if renamed_to else None,
        source=errors.field(row, "source", str, entry),
    )


def _names(
    rows: list[Mapping[str, Any]],
    known: Mapping[Architecture, KnownArchitecture],
    errors: DataErrors,
) -> dict[str, tuple[Architecture, ...]]:
    found: dict[str, tuple[Architecture, ...]] = {}
    for row in rows:
        entry = f"name {row.get('name')!r}"
        errors.unknown_keys(row, _NAME_KEYS, entry)
        errors.field(row, "source", str, entry)
        members = tuple(errors.architecture(text, entry) for text in errors.strings(row, "means", entry))
        for member in members:
            if member not in known:
                errors.add(f"{entry}: there is no architecture {member.dotted!r}")
        for name in (errors.field(row, "name", str, entry), *errors.strings(row, "aliases", entry)):
            if name.lower() in found:
                errors.add(f"{entry}: {name!r} is there twice", "keep one of them")
            found[name.lower()] = members
    return found


def _refused(rows: list[Mapping[str, Any]], errors: DataErrors) -> dict[str, str]:
    found: dict[str, str] = {}
    for row in rows:
        entry = f"refused {row.get('words')!r}"
        errors.unknown_keys(row, _REFUSED_KEYS, entry)
        errors.field(row, "source", str, entry)
        remedy = errors.field(row, "remedy", str, entry)
        found.update((word, remedy) for word in errors.strings(row, "words", entry))
    return found
