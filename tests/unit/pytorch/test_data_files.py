"""The shipped data files: their schemas, one form so that a change shows as what it is, public documents only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from torchwheel import pytorch

FOLDER = Path(pytorch.__file__).parent

# The keys of each kind of entry, in order; a key with a dot is a table of its own.
KEYS = {
    "release": "version patches requires-python python-fails-from source",
    "release.cuda": "minimum newest fails-from before-turing note source",
    "release.cudnn": "minimum newest-major note source",
    "release.compilers": "cxx-standard gcc clang msvc not-stated note source",
    "release.cmake": "minimum below note source",
    "nvcc-bug": "cuda system guarded-from file left-out note source",
    "index": "url known-until source",
    "build": "platform label since until code removes note source",
    "python": "platforms since until tags source",
    "pypi": "platform since until label source",
    "library": "name used_by note source",
    "part": "platform label since until library code note source",
    "glibc": "platforms since until minimum source",
    "included": "options source",
    "tree": "version early source",
    "support": "standard compiler minimum source",
    "option": "name seen absent since until instead unconditional labelled partial makes note source",
}
FILES = ("releases.toml", "published.toml", "options.toml", "cxx_standards.toml")


def literal(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{literal(key)} = {literal(item)}' for key, item in value.items())} }}"
    return str(value)


def lines(kind: str, row: dict[str, Any]) -> Iterator[str]:
    yield f"[{kind}]" if "." in kind else f"[[{kind}]]"
    yield from (f"{key} = {literal(row[key])}" for key in KEYS[kind].split() if key in row)
    yield ""
    for table in (known for known in KEYS if known.startswith(f"{kind}.")):
        name = table.partition(".")[2]
        if name in row:
            yield from lines(table, row[name])


def test_these_are_all_the_files() -> None:
    assert sorted(path.name for path in FOLDER.glob("*.toml")) == sorted(FILES)


@pytest.mark.parametrize("name", FILES)
def test_sources_are_public_documents(name: str) -> None:
    text = (FOLDER / name).read_text(encoding="utf-8")
    hosts = {urlsplit(word).hostname for word in text.replace('"', " ").split() if word.startswith("https:")}
    assert hosts <= {
        "github.com", "pytorch.org", "download.pytorch.org", "dev-discuss.pytorch.org", "nvidia-cosmos.github.io",
        "gcc.gnu.org", "clang.llvm.org", "learn.microsoft.com", "devblogs.microsoft.com",
    }  # fmt: skip
