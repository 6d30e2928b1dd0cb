"""Wheels of one line each, for an index in a folder."""

from __future__ import annotations

import zipfile
from pathlib import Path


def tiny_wheel(folder: Path, name: str, version: str, *requires: str) -> None:
    """Write a wheel with a module that knows its version, and with these requirements."""
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    files = {
        f"{name}.py": f"version = '{version}'\n",
        f"{info}/METADATA": metadata + "".join(f"Requires-Dist: {one}\n" for one in requires),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = (
        "".join(f"{path},,{len(text)}\n" for path, text in files.items()) + f"{info}/RECORD,,\n"
    )
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
