"""Write src/torchwheel/extension/python_stable_abi.toml from what the package abi3info (PyPI) lists.

    pip install abi3info && python tools/python_stable_abi.py

abi3info is made from CPython's own list, Misc/stable_abi.toml.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import abi3info

_TARGET = Path(__file__).parents[1] / "src" / "torchwheel" / "extension" / "python_stable_abi.toml"

_HEAD = """# The symbols of Python's stable ABI, by the version that added them.
# Made by tools/python_stable_abi.py.
source = "https://github.com/python/cpython/blob/main/Misc/stable_abi.toml"
"""


def main() -> None:
    """Replace the data file."""
    versions: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
    for symbol, entry in {**abi3info.FUNCTIONS, **abi3info.DATAS}.items():
        versions[entry.added.major, entry.added.minor].append(symbol.name)
    parts = [_HEAD]
    for (major, minor), symbols in sorted(versions.items()):
        names = "".join(f'  "{name}",\n' for name in sorted(symbols))
        parts.append(f'\n[[added]]\nversion = "{major}.{minor}"\nsymbols = [\n{names}]\n')
    _TARGET.write_text("".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
