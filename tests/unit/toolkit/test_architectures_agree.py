"""What the data files and the documents say of architectures is the same everywhere."""

from __future__ import annotations

import re
from collections.abc import Iterator

from places import REPOSITORY
from torchwheel.hardware.architecture import Architecture, known_architectures
from torchwheel.hardware.gpu_catalogue import read_gpus
from torchwheel.toolkit.cuda_releases import read_toolkits

DOCUMENTS = sorted(
    [REPOSITORY / "README.md", REPOSITORY / "CHANGELOG.md"]
    + [
        path
        for pattern in ("docs/*.md", "overlays/*.toml", "examples/*/README.md")
        for path in REPOSITORY.glob(pattern)
    ]
)

MENTION = re.compile(r"\b(?:sm_?|compute_|ptx)(\d{2,3}[af]?)\b")
FIRST_RELEASE = re.compile(r"\bsm_(\d{2,3}[af]?) (?:exists from|is compiled by) CUDA (\d+\.\d+)")

# Older than the oldest GPU that torchwheel knows; CUDA 11 still compiled for it.
KEPLER = {Architecture(3, 5), Architecture(3, 7)}


def architecture(number: str) -> Architecture:
    """The one that ``"120a"`` spells."""
    digits = number.rstrip("af")
    parsed = Architecture.from_dotted(f"{digits[:-1]}.{digits[-1]}{number[len(digits) :]}")
    assert parsed is not None
    return parsed


def found(pattern: re.Pattern[str]) -> Iterator[tuple[str, ...]]:
    for path in DOCUMENTS:
        for match in pattern.finditer(path.read_text(encoding="utf-8")):
            yield path.name, *match.groups()


def test_the_known_architectures_are_those_that_toolkits_compile() -> None:
    compiled = frozenset().union(*(release.architectures for release in read_toolkits()))
    known = {Architecture.from_dotted(text) for entry in known_architectures() for text in entry.spellings}
    assert known == compiled - KEPLER


def test_every_gpu_can_be_compiled_for() -> None:
    assert {
        gpu.name for gpu in read_gpus() if not read_toolkits().compiling_all([gpu.compute_capability])
    } == set()


def test_documents_name_only_architectures_that_exist() -> None:
    mentions = list(found(MENTION))
    assert {name for name, _ in mentions} >= {"README.md", "sm120.toml"}
    unknown = [
        (name, number)
        for name, number in mentions
        if not read_toolkits().compiling_all([architecture(number)])
    ]
    assert unknown == []


def test_documents_name_the_first_toolkit_of_an_architecture() -> None:
    said = list(found(FIRST_RELEASE))
    assert {name for name, _, _ in said} >= {"quickstart.md", "a100.toml", "gb10.toml", "sm120.toml"}
    assert said == [
        (name, number, read_toolkits().compiling_all([architecture(number)])[0].version)
        for name, number, _ in said
    ]
