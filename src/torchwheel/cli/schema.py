"""``torchwheel schema``: the JSON schema of a document that torchwheel writes, or of its table in pyproject.toml."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torchwheel
from torchwheel.reporting.errors import find_nearest, refusal
from torchwheel.reporting.terminal import format_table

_ENDING = ".schema.json"


def populate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name",
        nargs="?",
        metavar="NAME",
        help="a command that has --json, manifest for the build manifest in a wheel, or torchwheel for "
        "[tool.torchwheel] (default: list all)",
    )


def run(parsed: argparse.Namespace) -> int:
    found = find_schemas()
    if parsed.name is None:
        rows = [(name, json.loads(file.read_bytes())["title"]) for name, file in found.items()]
        print(format_table(("NAME", "OF WHAT"), rows))
        return 0
    if parsed.name not in found:
        meant, schemas = find_nearest(parsed.name, found), ", ".join(found)
        raise refusal(
            "unknown-schema/near" if meant else "unknown-schema",
            name=parsed.name,
            meant=meant,
            schemas=schemas,
        )
    print(found[parsed.name].read_text(encoding="utf-8"), end="")
    return 0


def find_schemas() -> dict[str, Path]:
    files = Path(torchwheel.__file__).parent.rglob(f"*{_ENDING}")
    return {file.name.removesuffix(_ENDING): file for file in sorted(files, key=lambda file: file.name)}
