"""The catalogue of NVIDIA GPUs, `gpus.toml`: product name to compute capability; and the GPUs of this machine."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

from torchwheel.hardware.architecture import Architecture, known_architectures
from torchwheel.host.programs import NoAnswer, ask_program, find_program
from torchwheel.reporting.errors import refusal
from torchwheel.system.toml import read_toml

_NOT_ALPHANUMERIC = re.compile(r"[^0-9a-z]+")
_VARIANT = re.compile(r"nvl\d+")
_MEMORY = re.compile(r"(?<![a-z0-9.])\d+(\.\d+)?\s*g(i?b)?(?![a-z0-9])")
# What surrounds a name in `nvidia-smi -L` and `lspci`: "GPU 0: ... (UUID: ...)", "GA100 [...] (rev a1)".
_FRAME = re.compile(r"^gpu \d+:|\(uuid:.*|^.*\[(?=.*\])|\].*$|\((r|tm|rev \w+)\)|[®™]")
# How many there are: "2x B200", "H100 x8".
_COUNT = re.compile(r"^\d{1,3}\s?[x\u00d7*]\s?|\s[x\u00d7*]\s?\d{1,3}$")
# A MIG instance ("MIG 1g.10gb") or a virtual GPU ("-20C", "-1-5C"): https://docs.nvidia.com/vgpu/
_PART = re.compile(r"(?<!\s)\s+mig\s+\d+g\.\d+gb.*$|-(?:\d+-)?\d+[abcq]$")
_CHIP_ENDING = re.compile(r"(?<=\d\d\d)(gl|m|glm)$")
_LONGEST, _CUTOFF = 100, 0.8
_GRID = re.compile(r"^(?:nvidia\s+)?grid\s+")

# Words that stand anywhere in a name: "RTX 6000 Pro".
_MOVABLE = re.compile("(rtx|gtx|super|laptop|blackwell|ada|pro|ti)")

# The word distinguishes products (Quadro RTX 6000), so drop it only if the rest is unambiguous.
_QUADRO = "quadro"


@dataclass(frozen=True)
class KnownGpu:
    """One product with an NVIDIA GPU.

    Attributes:
        aliases: other names; every spelling of the first two is accepted anyway.
        memory_gib: None if unknown or if one name covers several sizes.
    """

    name: str
    title: str
    aliases: tuple[str, ...]
    compute_capability: Architecture
    family: str
    memory_gib: float | None
    platforms: tuple[str, ...]
    source: str

    @property
    def described(self) -> str:
        return f"{self.name} ({self.title}, {self.compute_capability})"

    @property
    def suggestion(self) -> str:
        return f"did you mean {self.name} ({self.compute_capability})?"


@dataclass(frozen=True)
class Spelling:
    """Words to ignore in a GPU's name: fillers even inside another (``geforce``), variants if whole (``laptop``)."""

    fillers: tuple[str, ...]
    variants: frozenset[str]

    def key(self, name: str) -> str:
        """The key shared by all spellings of a name: ``rtx5070`` for ``NVIDIA GeForce RTX 5070``, ``rtx-5070``."""
        return self._join_words(_split_words(name))

    def keys(self, name: str) -> tuple[str, ...]:
        """The keys under which to look for a name, the one that leaves out least first."""
        bare = _COUNT.sub("", _FRAME.sub("", name.lower()).strip())
        whole = _GRID.sub("", _PART.sub("", bare))
        sizeless = _MEMORY.sub("", whole)
        words = [w for w in _split_words(sizeless) if w not in self.variants and not _VARIANT.fullmatch(w)]
        return tuple(dict.fromkeys((*map(self.key, (name, bare, whole, sizeless)), self._join_words(words))))

    def _join_words(self, words: Sequence[str]) -> str:
        key = "".join(words)
        for filler in self.fillers:
            key = key.replace(filler, "")
        return key


def _split_words(name: str) -> list[str]:
    return [word for word in _NOT_ALPHANUMERIC.split(name.lower()) if word]


def _sort_words(key: str) -> str:
    return " ".join(sorted(filter(None, _MOVABLE.split(key))))


@dataclass(frozen=True)
class GpuCatalogue:
    """All known GPUs, by compute capability and name.

    Attributes:
        by_words: as by_key, whatever the order of words.
        ambiguous: key of a spelling that several products share, to their canonical names.
        foreign: the advice for GPUs that CUDA does not support, by a pattern of their names' lower-case words.
    """

    by_name: Mapping[str, KnownGpu]
    by_key: Mapping[str, KnownGpu]
    by_words: Mapping[str, KnownGpu]
    ambiguous: Mapping[str, tuple[str, ...]]
    spelling: Spelling
    foreign: Mapping[re.Pattern[str], str]
    chips: Mapping[str, str]

    def find(self, name: str) -> KnownGpu | None:
        """Find a GPU by name in any spelling, including nvidia-smi's; None if unknown or ambiguous."""
        for key in self.spelling.keys(name)[: 1 if self.refusal(name) else None]:
            # Words that people leave out before a number: "4090", "1080 Ti", "PRO 6000".
            series = ("rtx", "gtx") if key[:1].isdigit() or key.startswith(("ada", "pro")) else ()
            for spelled in (key, key.removeprefix(_QUADRO), *(prefix + key for prefix in series)):
                if gpu := self.by_key.get(spelled) or self.by_words.get(_sort_words(spelled)):
                    return gpu
        return None

    def refusal(self, name: str) -> str:
        """The advice for what is no GPU to compile for: another maker's, or a chip; empty for any other name."""
        bare = _COUNT.sub("", name.lower().strip())
        words = " ".join(_split_words(bare))
        key = self.spelling.key(bare)
        if key not in self.by_key and (capability := self.chips.get(_CHIP_ENDING.sub("", key))):
            return f"it is a chip of compute capability {capability}: name the product, or use -C arch={capability}"
        return next((text for pattern, text in self.foreign.items() if pattern.fullmatch(words)), "")

    def find_candidates(self, name: str) -> tuple[KnownGpu, ...]:
        """The GPUs that an ambiguous name such as ``RTX 6000`` may mean; empty for any other name."""
        keys = self.spelling.keys(name)
        names = next((self.ambiguous[key] for key in keys if key in self.ambiguous), ())
        return tuple(self.by_name[known] for known in names)

    def nearest(self, name: str) -> KnownGpu | None:
        """The GPU that is meant by a name that holds more than its own, or a mistake; None if the code may differ."""
        key = self.spelling.key(name)
        if len(key) > _LONGEST:
            return None
        typed = [gpu for one, gpu in self.by_key.items() if _is_one_mistake(one, key)]
        words = [part for word in _split_words(name) for part in _MOVABLE.split(word) if part]
        for length in range(len(words), 0, -1):
            named: list[KnownGpu] = []
            for at in range(len(words) - length + 1):
                run, rest = words[at : at + length], {*words[:at], *words[at + length :]}
                # Words without which a name may be that of another generation's GPU.
                if not rest & {"ada", "blackwell", "jetson", "pro"}:
                    found = self.find(" ".join(run))
                    named += [found] if found else self.find_candidates(" ".join(run))
            if named:
                return _agreed([*named, *typed])
        if typed:
            return _agreed(typed)
        return _agreed([self.by_key[one] for one in get_close_matches(key, self.by_key, cutoff=_CUTOFF)])

    def resolve(self, name: str, origin: str = "") -> KnownGpu:
        if gpu := self.find(name):
            return gpu
        if candidates := self.find_candidates(name):
            listed = ", ".join(gpu.described for gpu in candidates)
            count = len(candidates)
            raise refusal("ambiguous-gpu", origin=origin, name=name, count=count, candidates=listed)
        if answer := self.refusal(name):
            raise refusal("unknown-gpu/foreign", origin=origin, name=name, answer=answer)
        if meant := self.nearest(name):
            raise refusal("unknown-gpu/near", origin=origin, name=name, meant=meant.suggestion)
        raise refusal("unknown-gpu", origin=origin, name=name)

    def find_elsewhere(self, name: str, platforms: Collection[str]) -> KnownGpu | None:
        """The GPU of a name if it is in no machine of these platforms; None where that is not known."""
        gpu, known = self.find(name), {platform for one in self for platform in one.platforms}
        if gpu is None or not platforms or not known.issuperset(platforms):
            return None
        return gpu if set(gpu.platforms).isdisjoint(platforms) else None

    def __iter__(self) -> Iterator[KnownGpu]:
        return iter(self.by_name.values())


def _is_one_mistake(known: str, key: str) -> bool:
    """Whether one character was added, left out or replaced, or two were swapped."""
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(known, key, strict=False)))
    one, other = known[same:], key[same:]
    swapped = one[:2] == other[1::-1] and one[2:] == other[2:]
    return one[1:] == other[1:] or one == other[1:] or one[1:] == other or swapped


def _agreed(gpus: Sequence[KnownGpu]) -> KnownGpu | None:
    return gpus[0] if len({gpu.compute_capability for gpu in gpus}) == 1 else None


@cache
def read_gpus() -> GpuCatalogue:
    data = read_toml(Path(__file__).with_name("gpus.toml"))
    known = [_read_gpu(row, group) for group in data["group"] for row in group["gpus"]]
    spelling = Spelling(tuple(data["spelling"]["fillers"]), frozenset(data["spelling"]["variants"]))
    ambiguous = {spelling.key(name): tuple(gpus) for name, gpus in data["ambiguous"].items()}
    foreign = {re.compile(row["pattern"]): row["answer"] for row in data["foreign"]}
    by_key: dict[str, KnownGpu] = {}
    for gpu in known:
        keys = {spelling.key(text) for text in (gpu.name, gpu.title, *gpu.aliases)}
        keys |= {key.removeprefix(_QUADRO) for key in keys} - ambiguous.keys()
        # 4070s is short for 4070 Super.
        keys |= {key.removesuffix("uper") for key in keys if key.endswith("super")}
        by_key |= dict.fromkeys(keys, gpu)
    by_words = {_sort_words(key): gpu for key, gpu in by_key.items()}
    chips = {chip: capability for capability, row in data["chips"].items() for chip in row}
    return GpuCatalogue(
        {gpu.name: gpu for gpu in known}, by_key, by_words, ambiguous, spelling, foreign, chips
    )


def _read_gpu(row: Mapping[str, Any], group: Mapping[str, Any]) -> KnownGpu:
    capability = Architecture.of(group["compute-capability"])
    return KnownGpu(
        name=row["name"],
        title=row["title"],
        aliases=tuple(row.get("aliases", ())),
        compute_capability=capability,
        family=known_architectures().by_capability[capability].family,
        memory_gib=float(row["memory"]) if "memory" in row else None,
        platforms=tuple(group.get("platforms", ("linux_aarch64", "linux_x86_64", "win_amd64"))),
        source=group["source"],
    )


_SHOWN = 300
"""Characters of its error message to quote: two sentences name the driver and the fix."""
_MOST_GPUS = 64
"""Lines of its output that are read; no machine has so many GPUs."""
_TIMEOUT_SECONDS = 20.0
"""Without persistence mode the driver is loaded first, which takes seconds for each GPU."""


@dataclass(frozen=True)
class NamedGpu:
    """A GPU by a user's name for it, or the driver's, and its compute capability."""

    name: str
    compute_capability: Architecture


def detect_gpus(environment: Mapping[str, str], seconds: float = _TIMEOUT_SECONDS) -> tuple[NamedGpu, ...]:
    """The GPUs of this machine in the driver's order; none without nvidia-smi on ``PATH``.

    If the driver does not report the compute capability, because it is old or a Jetson's, the GPU is looked up in the
    catalogue by name, and left out if it is not there.

    Raises:
        NoAnswer: nvidia-smi takes longer than ``seconds``, or fails.
    """
    path = environment.get("PATH", "")
    program = find_program("nvidia-smi", path) if path else None
    if program is None:
        return ()
    for fields in ("name,compute_cap", "name"):
        query = [program, f"--query-gpu={fields}", "--format=csv,noheader"]
        answer = ask_program(query, environment, seconds)
        said = answer.stdout + answer.stderr
        # nvidia-smi's message about a field that it does not have.
        if "is not a valid field to query" not in said:
            break
    if answer.returncode != 0 and "No devices were found" not in said:
        quoted = " ".join(said.split())[:_SHOWN]
        raise NoAnswer(f'nvidia-smi ended with status {answer.returncode}: "{quoted}"')
    rows = answer.stdout.splitlines()[:_MOST_GPUS]
    return tuple(filter(None, (_parse_row(row.strip()) for row in rows)))


def try_to_detect(detect: Callable[[], Sequence[NamedGpu]]) -> tuple[Sequence[NamedGpu], str]:
    """The GPUs that are detected, and why there are none, if so."""
    try:
        return detect(), "nvidia-smi is missing, or lists none"
    except NoAnswer as failure:
        return (), str(failure)


def _parse_row(row: str) -> NamedGpu | None:
    name, _, capability_text = row.rpartition(",")
    if capability := Architecture.from_dotted(capability_text.strip()):
        return NamedGpu(name.strip(), capability)
    # Without a capability, the row is only the name or ends in "[N/A]".
    name = name.strip() or row
    known = read_gpus().find(name)
    return NamedGpu(name, known.compute_capability) if known is not None else None
