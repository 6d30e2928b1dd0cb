"""Write src/torchwheel/proof/shim_functions.toml from the headers of released PyTorch wheels.

    python tools/shim_functions.py WHEEL...

One wheel of each minor release, oldest first; the macOS wheels are the smallest, and every wheel carries the headers
of all backends. The headers' own guards (``#if TORCH_FEATURE_VERSION >= TORCH_VERSION_2_12_0``) are not used: they
are missing around functions that older releases do not have, ``aoti_torch_cuda_caching_allocator_raw_alloc`` for
one.
"""

from __future__ import annotations

import re
import sys
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from textwrap import fill

_TARGET = Path(__file__).parents[1] / "src" / "torchwheel" / "proof" / "shim_functions.toml"
_HEADER = re.compile(r"torch/include/torch/csrc/(stable/c|inductor/aoti_torch/(c|generated))/\w+\.h")
_VERSION = re.compile(r"torch-(\d+\.\d+)\.")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_DECLARATION = re.compile(r"\bAOTI_TORCH_EXPORT\s[^;{(#]*?\b((?:aoti|torch)_\w+)\s*\(")
_SHARED = (
    ["aoti_torch_cpu_", "aoti_torch_cuda_"],
    ["aoti_torch_cpu_", "aoti_torch_cuda_", "aoti_torch_mps_"],
)
_PREFIX = re.compile(r"aoti_torch_(?:cpu_|cuda_|mps_|xpu_)?|aoti_|torch_")

_WIDTH = 118
_HEAD = """# The functions of PyTorch's stable C interface, by the release whose headers first declare them.
# Made by tools/shim_functions.py; the first table has all that its release declares. A text has names without the
# prefixes that its key names, each of them with each.
"""


def declared_functions(wheel: Path) -> frozenset[str]:
    """The functions that the headers of a wheel declare, whatever the guards around them."""
    with zipfile.ZipFile(wheel) as archive:
        texts = [archive.read(name).decode("utf-8") for name in archive.namelist() if _HEADER.fullmatch(name)]
    return frozenset(match[1] for text in texts for match in _DECLARATION.finditer(_COMMENT.sub("", text)))


def rendered(releases: Mapping[str, frozenset[str]]) -> Iterator[str]:
    """The data file's parts: each release with what the ones before it did not declare."""
    yield _HEAD
    known: frozenset[str] = frozenset()
    for release, functions in releases.items():
        yield f'\n[[release]]\nversion = "{release}"\nsource = "PyPI: torch {release}, torch/include/torch/csrc"\n'
        yield "[release.functions]\n"
        yield from _groups(functions - known)
        known |= functions


def _groups(functions: Iterable[str]) -> Iterator[str]:
    prefixes: dict[str, list[str]] = defaultdict(list)
    for function in sorted(functions):
        if match := _PREFIX.match(function):
            prefixes[function[match.end() :]].append(match[0])
    groups: dict[str, list[str]] = defaultdict(list)
    for name, own in sorted(prefixes.items()):
        for key in [" ".join(own)] if own in _SHARED else own:
            groups[key].append(name)
    for key, names in sorted(groups.items()):
        text = fill(" ".join(names), _WIDTH, break_long_words=False, break_on_hyphens=False)
        yield f'"{key}" = """\n{text}"""\n'


def main(arguments: list[str]) -> None:
    """Read the wheels and replace the data file."""
    releases: dict[str, frozenset[str]] = {}
    for wheel in map(Path, arguments):
        match = _VERSION.match(wheel.name)
        if match is None:
            raise SystemExit(f"{wheel.name} is no wheel of PyTorch")
        releases[match[1]] = declared_functions(wheel)
    _TARGET.write_text("".join(rendered(releases)), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
