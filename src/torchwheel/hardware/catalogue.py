"""The catalogue of NVIDIA GPUs, `gpus.toml`: from the name of a product to its compute capability."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher, get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from torchwheel._toml import read_toml
from torchwheel.errors import Problem, TorchwheelError
from torchwheel.hardware._data_file import DataErrors
from torchwheel.hardware.architecture import Architecture
from torchwheel.hardware.known_architectures import known_architectures
from torchwheel.hardware.spelling import Spelling

_FILE = Path(__file__).with_name("gpus.toml")

_GROUP_KEYS = frozenset({"compute-capability", "platforms", "source", "gpus"})
_GPU_KEYS = frozenset({"name", "title", "aliases", "memory"})
_AMBIGUOUS_KEYS = frozenset({"name", "candidates"})

_SPELLING_KEYS = frozenset({"fillers", "variants"})

_NOT_IN_A_NAME = re.compile(r"[^0-9a-z-]")
_DIGITS = re.compile(r"\d+")

# This word tells products apart (Quadro RTX 6000), so it may go only where nothing else has the rest.
_QUADRO = "quadro"


@dataclass(frozen=True)
class Gpu:
    """One product with an NVIDIA GPU.

    Attributes:
        name: the canonical name, what users type and documents show: ``rtx5070``.
        title: NVIDIA's name without the company's: ``GeForce RTX 5070``.
        aliases: other names, beside every spelling of these two.
        compute_capability: what its code must be compiled for.
        family: the generation, such as ``Blackwell``.
        memory_gib: memory in GiB; None where it is not well known or one name covers several sizes.
        platforms: platform tags of the machines it is used in, such as ``linux_x86_64``.
        source: the public document that gives the compute capability.
    """

    name: str
    title: str
    aliases: tuple[str, ...]
    compute_capability: Architecture
    family: str
    memory_gib: float | None
    platforms: tuple[str, ...]
    source: str


@dataclass(frozen=True)
class GpuCatalogue:
    """All known GPUs, by compute capability and name.

    Attributes:
        by_name: from the canonical name.
        by_key: from the key of every spelling.
        ambiguous: from the key of a spelling that several products share to their canonical names.
        spelling: how a key is made.
    """

    by_name: Mapping[str, Gpu]
    by_key: Mapping[str, Gpu]
    ambiguous: Mapping[str, tuple[str, ...]]
    spelling: Spelling

    def find(self, name: str) -> Gpu | None:
        """The GPU of that name in any spelling, also nvidia-smi's; None if unknown or ambiguous."""
        for key in self._keys(name):
            found = self.by_key.get(key) or self.by_key.get(key.removeprefix(_QUADRO))
            if found is not None:
                return found
        return None

    def candidates(self, name: str) -> tuple[Gpu, ...]:
        """The GPUs that an ambiguous name such as ``RTX 6000`` may mean; empty for any other name."""
        names = next((self.ambiguous[key] for key in self._keys(name) if key in self.ambiguous), ())
        return tuple(self.by_name[known] for known in names)

    def nearest(self, name: str) -> str | None:
        """The canonical name most like ``name``, or None if none is like it.

        A name with the same numbers goes before one with others: few people mistype the model number alone.
        """

        wanted = self.spelling.key(name)
        close = get_close_matches(wanted, self.by_key, n=8, cutoff=0.7)
        if not close:
            return None
        best = max(
            close,
            key=lambda key: (
                _DIGITS.findall(key) == _DIGITS.findall(wanted),
                SequenceMatcher(None, key, wanted).ratio(),
            ),
        )
        return self.by_key[best].name

    def resolve(self, name: str, origin: str = "") -> Gpu:
        """The GPU of that name.

        Raises:
            TorchwheelError: it is unknown or ambiguous; the message has the nearest name or the candidates.
        """
        gpu = self.find(name)
        if gpu is not None:
            return gpu
        candidates = self.candidates(name)
        if candidates:
            raise TorchwheelError(_ambiguous_name(name, candidates, origin))
        raise TorchwheelError(_unknown_name(name, self.nearest(name), origin))

    def __iter__(self) -> Iterator[Gpu]:
        return iter(self.by_name.values())

    def _keys(self, name: str) -> tuple[str, str]:
        return self.spelling.key(name), self.spelling.key_without_variant(name)


def _ambiguous_name(name: str, candidates: Sequence[Gpu], origin: str) -> Problem:
    listed = [f"{gpu.name} ({gpu.title}, {gpu.compute_capability})" for gpu in candidates]
    return Problem(
        id="ambiguous-gpu",
        what=f"{name!r} may be any of {len(listed)} GPUs",
        remedy=f"use {', '.join(listed[:-1])} or {listed[-1]}",
        origin=origin,
    )


def _unknown_name(name: str, nearest: str | None, origin: str) -> Problem:
    return Problem(
        id="unknown-gpu",
        what=f"there is no GPU {name!r} in the catalogue",
        remedy=f"did you mean {nearest!r}?"
        if nearest
        else "name its compute capability instead, -C arch=12.0",
        origin=origin,
    )


@cache
def gpus() -> GpuCatalogue:
    """The GPUs that torchwheel ships knowledge of."""
    return load_catalogue(_FILE)


def load_catalogue(path: Path) -> GpuCatalogue:
    """Read and check a file like `gpus.toml`.

    Raises:
        TorchwheelError: the file is unreadable, or entries are wrong or their names collide; all are named.
    """
    data = read_toml(path)
    errors = DataErrors(str(path))
    by_name: dict[str, Gpu] = {}
    for group in data.get("group", []):
        for gpu in _group(group, errors):
            if gpu.name in by_name:
                errors.add(f"gpu {gpu.name!r}: is there twice", "keep one of them")
            by_name[gpu.name] = gpu
    spelling = _spelling(data.get("spelling", {}), errors)
    ambiguous = _ambiguous(data.get("ambiguous", []), by_name, spelling, errors)
    by_key = _index(by_name.values(), ambiguous, spelling, errors)
    errors.raise_if_any()
    return GpuCatalogue(by_name, by_key, ambiguous, spelling)


def _spelling(row: Mapping[str, Any], errors: DataErrors) -> Spelling:
    errors.unknown_keys(row, _SPELLING_KEYS, "spelling")
    fillers = errors.strings(row, "fillers", "spelling")
    return Spelling(fillers, frozenset(errors.strings(row, "variants", "spelling")))


def _group(group: Mapping[str, Any], errors: DataErrors) -> Iterator[Gpu]:
    text = group.get("compute-capability")
    entry = f"group {text!r}"
    errors.unknown_keys(group, _GROUP_KEYS, entry)
    capability = errors.architecture(errors.field(group, "compute-capability", str, entry), entry)
    known = known_architectures().get(capability)
    if known is None:
        errors.add(f"{entry}: that compute capability is not in architectures.toml")
    platforms = errors.strings(group, "platforms", entry)
    source = errors.field(group, "source", str, entry)
    for row in errors.field(group, "gpus", list, entry):
        yield _gpu(row, capability, known.family if known else "", platforms, source, errors)


def _gpu(
    row: Mapping[str, Any],
    capability: Architecture,
    family: str,
    platforms: tuple[str, ...],
    source: str,
    errors: DataErrors,
) -> Gpu:
    name = row.get("name")
    entry = f"gpu {name!r}"
    errors.unknown_keys(row, _GPU_KEYS, entry)
    name = errors.field(row, "name", str, entry)
    if _NOT_IN_A_NAME.search(name):
        errors.add(f"{entry}: a name has small letters, digits and hyphens only")
    memory = errors.field(row, "memory", int, entry, default=0)
    return Gpu(
        name=name,
        title=errors.field(row, "title", str, entry),
        aliases=errors.strings(row, "aliases", entry),
        compute_capability=capability,
        family=family,
        memory_gib=float(memory) or None,
        platforms=platforms,
        source=source,
    )


def _ambiguous(
    rows: list[Mapping[str, Any]], by_name: Mapping[str, Gpu], spelling: Spelling, errors: DataErrors
) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for row in rows:
        entry = f"ambiguous {row.get('name')!r}"
        errors.unknown_keys(row, _AMBIGUOUS_KEYS, entry)
        candidates = errors.strings(row, "candidates", entry)
        for candidate in candidates:
            if candidate not in by_name:
                errors.add(f"{entry}: there is no gpu {candidate!r}")
        found[spelling.key(errors.field(row, "name", str, entry))] = candidates
    return found


def _index(
    known: Iterable[Gpu], ambiguous: Mapping[str, tuple[str, ...]], spelling: Spelling, errors: DataErrors
) -> dict[str, Gpu]:
    by_key: dict[str, Gpu] = {}
    for gpu in known:
        keys = {spelling.key(text) for text in (gpu.name, gpu.title, *gpu.aliases)}
        keys |= {key.removeprefix(_QUADRO) for key in keys} - ambiguous.keys()
        for key in sorted(keys):
            other = by_key.setdefault(key, gpu)
            if other is not gpu:
                errors.add(
                    f"gpu {gpu.name!r}: its spelling {key!r} is that of {other.name!r} too",
                    "drop an alias, or put that spelling among the ambiguous ones",
                )
            if key in ambiguous:
                errors.add(f"gpu {gpu.name!r}: its spelling {key!r} is among the ambiguous ones")
    return by_key
