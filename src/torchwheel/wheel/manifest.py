"""The build manifest inside a wheel, ``*.dist-info/torchwheel.json``: what it was built from, and how.

The caller provides the plan's part as plain data; this module owns the outer shape, ``manifest.schema.json``,
and the bytes: sorted keys and no time of its own, so that the same build gives the same file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from torchwheel._version import __version__
from torchwheel.host.this import without_folder
from torchwheel.reporting.errors import Problem, TorchwheelError, refusal
from torchwheel.reporting.masking import mask_document
from torchwheel.wheel.archive import open_wheel
from torchwheel.wheel.bounded_file import MANIFEST_BYTES
from torchwheel.wheel.contents import WheelContents

MANIFEST_NAME = "torchwheel.json"
"""Its path relative to ``*.dist-info``."""

SCHEMA_VERSION = 1


def manifest_document(
    plan: Mapping[str, Any], contents: WheelContents, built: datetime | None = None
) -> dict[str, Any]:
    """A build manifest.

    Args:
        plan: the plan's part, JSON data as ``manifest.schema.json`` describes it.
        contents: the wheel as it was built.
        built: the moment that SOURCE_DATE_EPOCH states; None where it is not set.
    """
    code = [
        {"library": library.path, "images": [image.document() for image in library.images]}
        for library in contents.libraries
        if library.images
    ]
    return {
        "schema": SCHEMA_VERSION,
        "torchwheel": __version__,
        "wheel": {"name": contents.name, "version": contents.version, "tags": list(contents.tags)},
        "machine_code": code,
        "plan": mask_document(plan),
        **({"built": built.isoformat()} if built else {}),
    }


def manifest_bytes(document: Mapping[str, Any], folders: Mapping[str, str] | None = None) -> bytes:
    """The file's content, with the name of each of ``folders`` in its place: see :func:`find_by_name`.

    Raises:
        TypeError, ValueError: the plan's part is no JSON data.
    """
    # Python would write NaN, which is not JSON.
    text = json.dumps(document, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False)
    return f"{name_folders(text, folders or {})}\n".encode()


def name_folders(text: str, folders: Mapping[str, str]) -> str:
    """JSON with the name of each folder in its place; of two, the one inside the other counts."""
    for folder, name in sorted(folders.items(), key=lambda item: -len(item[0])):
        text = without_folder(text, folder, name)
    return text


def as_written(part: Mapping[str, Any], folders: Mapping[str, str]) -> dict[str, Any]:
    """A part of a manifest as it is read again, with the name of each of ``folders`` in its place."""
    read: dict[str, Any] = json.loads(name_folders(json.dumps(part, ensure_ascii=False), folders))
    return read


def read_manifest(path: Path) -> dict[str, Any] | None:
    """The manifest inside a wheel, as JSON data; None if torchwheel did not build it."""
    with open_wheel(path) as archive:
        name = f"{archive.dist_info}/{MANIFEST_NAME}"
        if name not in archive.members:
            return None
        data = archive.read(name, MANIFEST_BYTES)
    return parse_manifest(data, f"{path}: {name}")


def parse_manifest(data: bytes, origin: str) -> dict[str, Any]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise TorchwheelError(_malformed_problem(f"it is not JSON: {error}", origin)) from None
    if not isinstance(document, dict) or not isinstance(document.get("schema"), int):
        raise TorchwheelError(_malformed_problem("it states no schema", origin))
    if document["schema"] != SCHEMA_VERSION:
        raise refusal(
            "unknown-manifest-schema", origin=origin, found=document["schema"], known=SCHEMA_VERSION
        )
    if fault := next(_find_faults(document), ""):
        raise TorchwheelError(_malformed_problem(fault, origin))
    return document


def _find_faults(document: Mapping[str, Any]) -> Iterator[str]:
    """Where it has not the shape of ``manifest.schema.json``, of what is read here."""
    plan = document.get("plan")
    plan = plan if isinstance(plan, dict) else {}
    extensions = plan.get("extensions", {"torch": {"version": ""}, "requires": [], "modules": []})
    torch = extensions.get("torch") if isinstance(extensions, dict) else None
    shapes: tuple[tuple[str, bool], ...] = (
        ("torchwheel", isinstance(document.get("torchwheel"), str)),
        ("wheel", _is_wheel(document.get("wheel"))),
        ("machine_code", _is_code(document.get("machine_code"))),
        ("plan.target", _is_texts(plan.get("target"))),
        ("plan.profile", _is_texts(plan.get("profile"))),
        ("plan.source", isinstance(plan.get("source", {}), dict)),
        ("plan.layers", _is_layers(plan.get("layers", []))),
        ("plan.skipped_checks", _is_texts(plan.get("skipped_checks", []))),
        ("plan.options", _is_options(plan.get("options", {}))),
        ("plan.extensions.torch", isinstance(torch, dict) and isinstance(torch.get("version"), str)),
        ("plan.extensions.requires", isinstance(extensions, dict) and _is_texts(extensions.get("requires"))),
        ("plan.extensions.modules", isinstance(extensions, dict) and _is_modules(extensions.get("modules"))),
        ("plan.toolchain", "extensions" not in plan or _is_toolchain(plan.get("toolchain"))),
    )
    return (f"{name} is missing, or of another type" for name, sound in shapes if not sound)


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_layers(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(one, dict) and isinstance(one.get("key"), str) and "value" in one for one in value
    )


def _is_wheel(value: object) -> bool:
    return (
        isinstance(value, dict)
        and all(isinstance(value.get(key), str) for key in ("name", "version"))
        and _is_texts(value.get("tags"))
    )


def _is_code(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(one, dict)
        and isinstance(one.get("library"), str)
        and isinstance(one.get("images"), list)
        and all(isinstance(image, dict) and _is_image(image) for image in one["images"])
        for one in value
    )


def _is_image(image: Mapping[str, Any]) -> bool:
    return isinstance(image.get("label"), str) and all(
        isinstance(image.get(key), int) for key in ("count", "stored_size")
    )


def _is_modules(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(one, dict)
        and _is_texts(one.get("architectures"))
        and all(isinstance(one.get(key), str) for key in ("name", "file"))
        and isinstance(one.get("stable_abi"), (str, type(None)))
        and "limited_api" in one
        for one in value
    )


def _is_toolchain(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("cuda"), (str, type(None)))


def _is_options(value: object) -> bool:
    if not isinstance(value, dict) or not _is_texts(value.get("switched_off", [])):
        return False
    requested = value.get("requested", {})
    return isinstance(requested, dict) and all(isinstance(one, str) for one in requested.values())


def _malformed_problem(detail: str, origin: str) -> Problem:
    return Problem.of("malformed-manifest", origin=origin, detail=detail)
