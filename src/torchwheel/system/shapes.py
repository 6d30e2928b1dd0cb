"""JSON data of strangers against the shape that its reader expects."""

from __future__ import annotations

from typing import Any


def find_misfit(value: object, shape: Any, where: str = "") -> str | None:
    """Return the part of JSON data that is missing or of another type; None for none.

    Args:
        shape: a type; None; a tuple of shapes, one of which it must have; ``[shape]`` for a list; a dict for an object,
            whose keys may be missing where the shape's end with ``?``, and of which ``*`` stands for each.
    """
    parts: list[tuple[str, object, Any]] = []
    if isinstance(shape, tuple):
        return where if all(find_misfit(value, one) is not None for one in shape) else None
    if isinstance(shape, list) and isinstance(value, list):
        parts = [(where, item, shape[0]) for item in value]
    elif isinstance(shape, dict) and isinstance(value, dict):
        for key, inner in shape.items():
            names = value if key == "*" else [key.removesuffix("?")]
            missing = [f"{where}.{name}".lstrip(".") for name in names if name not in value]
            if missing and not key.endswith("?"):
                return missing[0]
            parts += [(f"{where}.{name}".lstrip("."), value[name], inner) for name in names if name in value]
    elif (
        value is not None
        if shape is None
        else isinstance(shape, (list, dict)) or not isinstance(value, shape)
    ):
        return where
    misfits = (find_misfit(*part[1:], part[0]) for part in parts)
    return next((one for one in misfits if one is not None), None)
