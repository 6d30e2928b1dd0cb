"""Whether a CUDA source compiles to different code for different architectures, read from its text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from torchwheel._toml import read_toml

_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.MULTILINE)
_LARGEST = 8 << 20


@dataclass(frozen=True)
class _Signs:
    """What shows it, as bytes."""

    words: re.Pattern[bytes]
    headers: tuple[bytes, ...]


@cache
def _signs() -> _Signs:
    data = read_toml(Path(__file__).with_name("architecture_features.toml"))
    alternatives = (word.encode() for word in data["words"])
    words = b"|".join(rb"\b" + re.escape(word) + (rb"\b" if word == b"asm" else b"") for word in alternatives)
    return _Signs(re.compile(words), tuple(header.encode() for header in data["headers"]))


def depends_on_architecture(source: Path, include_dirs: Iterable[Path]) -> bool:
    """Whether a source, or a header of its project that it includes, asks for the architecture.

    Headers outside of the project count by their names alone: PyTorch's own ask for nothing that a newer
    architecture would answer differently, CUB's and CUTLASS's do. What cannot be read counts as asking.

    Args:
        source: the file.
        include_dirs: the project's own folders of headers.
    """
    signs, folders = _signs(), tuple(include_dirs)
    waiting, seen = [source], {source}
    while waiting:
        file = waiting.pop()
        try:
            if file.stat().st_size > _LARGEST:
                return True
            text = file.read_bytes()
        except OSError:
            return True
        if signs.words.search(text):
            return True
        for name in _included(text):
            if name.startswith(signs.headers):
                return True
            header = _found(name, (file.parent, *folders))
            if header is not None and header not in seen:
                seen.add(header)
                waiting.append(header)
    return False


def _included(text: bytes) -> Iterator[bytes]:
    return (match[2] for match in _INCLUDE.finditer(text))


def _found(name: bytes, folders: Iterable[Path]) -> Path | None:
    candidates = (folder / name.decode("utf-8", "surrogateescape") for folder in folders)
    return next((path for path in candidates if path.is_file()), None)
