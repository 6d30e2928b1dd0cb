"""The catalogue of NVIDIA GPUs, `gpus.toml`: product name to compute capability."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from torchwheel.hardware.architecture import Architecture, known_architectures
from torchwheel.reporting.errors import Problem, TorchwheelError, find_nearest, refusal
from torchwheel.system.toml import read_toml

_FILE = Path(__file__).with_name("gpus.toml")

_NOT_ALPHANUMERIC = re.compile(r"[^0-9a-z]+")
_VARIANT = re.compile(r"\d+gi?b?|nvl\d+")
# A MIG instance ("MIG 1g.10gb") or a virtual GPU ("-20C", "-1-5C"): https://docs.nvidia.com/vgpu/
_PART = re.compile(r"(?<!\s)\s+mig\s+\d+g\.\d+gb.*$|-(?:\d+-)?\d+[abcq]$")
_GRID = re.compile(r"^(?:nvidia\s+)?grid\s+")
# Words that people leave out before a number: "4090", "1080 Ti", "PRO 6000".
_SERIES = ("rtx", "gtx")

# The word distinguishes products (Quadro RTX 6000), so drop it only if the rest is unambiguous.
_QUADRO = "quadro"


@dataclass(frozen=True)
class KnownGpu:
    """One product with an NVIDIA GPU.

    Attributes:
        name: the canonical name, for settings and documents: ``rtx5070``.
        title: NVIDIA's name without the company's: ``GeForce RTX 5070``.
        aliases: other names; every spelling of the first two is accepted anyway.
        compute_capability: what its code must be compiled for.
        family: the generation, such as ``Blackwell``.
        memory_gib: memory in GiB; None if unknown or if one name covers several sizes.
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
class Spelling:
    """Words to ignore in a GPU's name, in lower case.

    Attributes:
        fillers: words to drop anywhere, even inside another: ``geforce``, ``generation``.
        variants: whole words that distinguish products with one GPU: ``laptop``.
    """

    fillers: tuple[str, ...]
    variants: frozenset[str]

    def key(self, name: str) -> str:
        """The key shared by all spellings of a name: ``rtx5070`` for ``NVIDIA GeForce RTX 5070``, ``rtx-5070``."""
        return self._join_words(_split_words(name))

    def key_without_variant(self, name: str) -> str:
        """The key without form factor and memory size: ``a100`` of ``NVIDIA A100-SXM4-80GB``."""
        words = _split_words(name)
        return self._join_words([w for w in words if w not in self.variants and not _VARIANT.fullmatch(w)])

    def _join_words(self, words: Sequence[str]) -> str:
        key = "".join(words)
        for filler in self.fillers:
            key = key.replace(filler, "")
        return key


def _split_words(name: str) -> list[str]:
    return [word for word in _NOT_ALPHANUMERIC.split(name.lower()) if word]


@dataclass(frozen=True)
class ForeignGpus:
    """GPUs that CUDA does not support.

    Attributes:
        pattern: matches their names, as lower-case words separated by one space.
        answer: the advice for them.
    """

    pattern: re.Pattern[str]
    answer: str


@dataclass(frozen=True)
class GpuCatalogue:
    """All known GPUs, by compute capability and name.

    Attributes:
        by_name: GPU by canonical name.
        by_key: GPU by the key of every spelling.
        ambiguous: key of a spelling that several products share, to their canonical names.
        spelling: how keys are formed.
        foreign: GPUs that CUDA does not support.
    """

    by_name: Mapping[str, KnownGpu]
    by_key: Mapping[str, KnownGpu]
    ambiguous: Mapping[str, tuple[str, ...]]
    spelling: Spelling
    foreign: tuple[ForeignGpus, ...]

    def find(self, name: str) -> KnownGpu | None:
        """Find a GPU by name in any spelling, including nvidia-smi's; None if unknown or ambiguous."""
        for key in self._keys(name)[: 1 if self.foreign_answer(name) else None]:
            series = _SERIES if key[:1].isdigit() or key.startswith("pro") else ()
            for spelled in (key, key.removeprefix(_QUADRO), *(prefix + key for prefix in series)):
                if spelled in self.by_key:
                    return self.by_key[spelled]
        return None

    def foreign_answer(self, name: str) -> str:
        """The advice for a GPU that CUDA does not support; empty for any other name."""
        words = " ".join(_split_words(name))
        return next((one.answer for one in self.foreign if one.pattern.fullmatch(words)), "")

    def find_candidates(self, name: str) -> tuple[KnownGpu, ...]:
        """The GPUs that an ambiguous name such as ``RTX 6000`` may mean; empty for any other name."""
        names = next((self.ambiguous[key] for key in self._keys(name) if key in self.ambiguous), ())
        return tuple(self.by_name[known] for known in names)

    def nearest(self, name: str) -> str | None:
        """The canonical name most like ``name``, or None if none is like it."""
        key = find_nearest(self.spelling.key(name), self.by_key)
        return self.by_key[key].name if key is not None else None

    def resolve(self, name: str, origin: str = "") -> KnownGpu:
        """Return the GPU of that name.

        Raises:
            TorchwheelError: it is unknown or ambiguous; the message has the nearest name or the candidates.
        """
        gpu = self.find(name)
        if gpu is not None:
            return gpu
        candidates = self.find_candidates(name)
        if candidates:
            raise TorchwheelError(_ambiguous_name(name, candidates, origin))
        if answer := self.foreign_answer(name):
            raise refusal("unknown-gpu/foreign", origin=origin, name=name, answer=answer)
        raise TorchwheelError(_unknown_name(name, self.nearest(name), origin))

    def __iter__(self) -> Iterator[KnownGpu]:
        return iter(self.by_name.values())

    def _keys(self, name: str) -> tuple[str, ...]:
        whole = _GRID.sub("", _PART.sub("", name.lower()))
        return self.spelling.key(name), self.spelling.key(whole), self.spelling.key_without_variant(whole)


def _ambiguous_name(name: str, candidates: Sequence[KnownGpu], origin: str) -> Problem:
    listed = [f"{gpu.name} ({gpu.title}, {gpu.compute_capability})" for gpu in candidates]
    return Problem.of(
        "ambiguous-gpu", origin=origin, name=name, count=len(listed), candidates=", ".join(listed)
    )


def _unknown_name(name: str, nearest: str | None, origin: str) -> Problem:
    return Problem.of(
        "unknown-gpu/near" if nearest else "unknown-gpu", origin=origin, name=name, meant=nearest
    )


@cache
def read_gpus() -> GpuCatalogue:
    """Read the GPUs that torchwheel knows."""
    data = read_toml(_FILE)
    known = [_read_gpu(row, group) for group in data["group"] for row in group["gpus"]]
    spelling = Spelling(tuple(data["spelling"]["fillers"]), frozenset(data["spelling"]["variants"]))
    ambiguous = {spelling.key(row["name"]): tuple(row["candidates"]) for row in data["ambiguous"]}
    foreign = tuple(ForeignGpus(re.compile(row["pattern"]), row["answer"]) for row in data["foreign"])
    by_key: dict[str, KnownGpu] = {}
    for gpu in known:
        keys = {spelling.key(text) for text in (gpu.name, gpu.title, *gpu.aliases)}
        keys |= {key.removeprefix(_QUADRO) for key in keys} - ambiguous.keys()
        # 4070s is short for 4070 Super.
        keys |= {key.removesuffix("uper") for key in keys if key.endswith("super")}
        by_key |= dict.fromkeys(keys, gpu)
    return GpuCatalogue({gpu.name: gpu for gpu in known}, by_key, ambiguous, spelling, foreign)


def _read_gpu(row: Mapping[str, Any], group: Mapping[str, Any]) -> KnownGpu:
    capability = Architecture.of(group["compute-capability"])
    return KnownGpu(
        name=row["name"],
        title=row["title"],
        aliases=tuple(row.get("aliases", ())),
        compute_capability=capability,
        family=known_architectures().by_capability[capability].family,
        memory_gib=float(row["memory"]) if "memory" in row else None,
        platforms=tuple(group["platforms"]),
        source=group["source"],
    )
