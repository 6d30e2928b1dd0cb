"""The build manifest inside a wheel, ``*.dist-info/torchwheel.json``: what it was built from, and how.

Its shape is ``manifest.schema.json``; its keys are sorted, and the same build gives the same file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torchwheel.host.this import without_folder
from torchwheel.reporting.errors import refusal
from torchwheel.wheel.archive import WheelArchive, open_wheel
from torchwheel.wheel.bounded_file import MANIFEST_BYTES

MANIFEST_NAME = "torchwheel.json"  # relative to *.dist-info
SCHEMA_VERSION = 1
_MODULE = {"architectures": [str], "name": str, "file": str, "stable_abi": (str, None), "limited_api": object}
# What is read of it here.
_SHAPE = {
    "torchwheel": str,
    "wheel": {"name": str, "version": str, "tags": [str]},
    "machine_code": [{"library": str, "images": [{"label": str, "count": int, "stored_size": int}]}],
    "plan": {
        "target": [str],
        "profile": [str],
        "source?": {},
        "layers?": [{"key": str, "value": object}],
        "skipped_checks?": [str],
        "options?": {"switched_off?": [str], "requested?": {"*": str}},
        "extensions?": {"torch": {"version": str}, "requires": [str], "modules": [_MODULE]},
        "toolchain?": {"cuda?": (str, None)},
    },
}


def manifest_bytes(document: Mapping[str, Any], folders: Mapping[str, str] | None = None) -> bytes:
    """The file, with the name of each of ``folders`` in its place; TypeError or ValueError for what is no JSON data."""
    # Python would write NaN, which is not JSON.
    text = json.dumps(document, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False)
    return f"{name_folders(text, folders or {})}\n".encode()


def name_folders(text: str, folders: Mapping[str, str]) -> str:
    # Of two, the one inside the other counts.
    for folder, name in sorted(folders.items(), key=lambda item: -len(item[0])):
        text = without_folder(text, folder, name)
    return text


def as_written(part: Mapping[str, Any], folders: Mapping[str, str]) -> dict[str, Any]:
    """A part of a manifest as it is read again, with the name of each of ``folders`` in its place."""
    read: dict[str, Any] = json.loads(name_folders(json.dumps(part, ensure_ascii=False), folders))
    return read


def read_manifest(path: Path) -> dict[str, Any] | None:
    with open_wheel(path) as archive:
        return find_manifest(archive)


def find_manifest(archive: WheelArchive) -> dict[str, Any] | None:
    name = f"{archive.dist_info}/{MANIFEST_NAME}"
    if name not in archive.members:
        return None
    return parse_manifest(archive.read(name, MANIFEST_BYTES), f"{archive.path}: {name}")


def parse_manifest(data: bytes, origin: str) -> dict[str, Any]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise refusal("malformed-manifest", origin=origin, detail=f"it is not JSON: {error}") from None
    if not isinstance(document, dict) or not isinstance(document.get("schema"), int):
        raise refusal("malformed-manifest", origin=origin, detail="it states no schema")
    if document["schema"] != SCHEMA_VERSION:
        values = {"found": document["schema"], "known": SCHEMA_VERSION}
        raise refusal("unknown-manifest-schema", origin=origin, **values)
    if (part := find_misfit(document, _SHAPE)) is not None:
        raise refusal("malformed-manifest", origin=origin, detail=f"{part} is missing, or of another type")
    return document


def find_misfit(value: object, shape: Any, where: str = "") -> str | None:
    """Return the part of JSON data that is missing or of another type; None for none.

    Args:
        shape: a type; None; a tuple of shapes, one of which it must have; ``[shape]`` for a list; a dict for an object,
            whose keys may be missing where the shape's end with ``?``, and of which ``*`` stands for each.
    """
    parts: list[tuple[object, Any, str]] = []
    if isinstance(shape, tuple):
        return where if all(find_misfit(value, one) is not None for one in shape) else None
    if isinstance(shape, list) and isinstance(value, list):
        parts = [(item, shape[0], where) for item in value]
    elif isinstance(shape, dict) and isinstance(value, dict):
        for key, inner in shape.items():
            for name in value if key == "*" else [key.removesuffix("?")]:
                place = f"{where}.{name}".lstrip(".")
                if name in value:
                    parts.append((value[name], inner, place))
                elif not key.endswith("?"):
                    return place
    elif value is not None if shape is None else not (isinstance(shape, type) and isinstance(value, shape)):
        return where
    misfits = (find_misfit(*part) for part in parts)
    return next((one for one in misfits if one is not None), None)
