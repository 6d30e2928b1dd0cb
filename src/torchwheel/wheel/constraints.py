"""The constraints file that makes pip keep a wheel that was built here."""

from __future__ import annotations

from pathlib import Path

from torchwheel._files import output_file
from torchwheel.wheel.contents import parse_file_name


def constraints_text(name: str, version: str) -> str:
    """Text of a constraints file (``pip install -c FILE ...``) that admits exactly one version.

    Args:
        name: name of the distribution.
        version: its version with the local label, e.g. ``2.14.1+cu130.sm120``.

    Source of the reasons: https://packaging.python.org/specifications/version-specifiers/#version-matching
    """
    public = version.partition("+")[0]
    return (
        f"# The label after + is part of the pin: {name}=={public} matches builds for any hardware, and of\n"
        "# these pip takes the label that sorts last: +cu130 before +cu129.sm120, and sm90 before sm120.\n"
        f"{name}=={version}\n"
    )


def write_constraints(wheel: Path) -> Path:
    """Write the constraints file for a wheel beside it, as ``constraints-NAME-VERSION.txt``.

    Raises:
        TorchwheelError: the file name is no wheel's, or the folder cannot be written to.
    """
    name, version, _tags = parse_file_name(wheel)
    path = wheel.with_name(f"constraints-{name}-{version}.txt")
    with output_file(path) as stream:
        stream.write(constraints_text(name, version).encode("utf-8"))
    return path
