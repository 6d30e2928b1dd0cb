"""``torchwheel targets``: the targets and profiles that overlays and tables describe, and where."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from torchwheel.hardware.gpu_catalogue import read_gpus
from torchwheel.host.this import this_host
from torchwheel.reporting.errors import Problem, TorchwheelError, stop_on
from torchwheel.reporting.terminal import (
    add_json_option,
    format_table,
    print_document,
    show,
    terminal_width,
    wrap_paragraph,
)
from torchwheel.settings.layers import Layer
from torchwheel.settings.targets import Described, described_targets


def populate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("filter", nargs="?", default="", metavar="FILTER", help="part of a name or title")
    add_json_option(parser)


def run(parsed: argparse.Namespace) -> int:
    """List what is described; problems of overlays that cannot be read follow.

    Raises:
        TorchwheelError: an overlay is malformed, or nothing fits.
    """
    problems: list[Problem] = []
    found = described_targets(Path.cwd(), os.environ, this_host(), problems)
    chosen = [one for one in found if _fits_text(one, parsed.filter)]
    if not chosen and not problems:
        raise TorchwheelError(_nothing_fits(parsed.filter))
    if parsed.json:
        print_document("targets", targets=[_target_document(one) for one in chosen])
    else:
        show(_render_targets(chosen, terminal_width()))
    stop_on(problems)
    return 0


def _fits_text(one: Described, text: str) -> bool:
    wanted = text.casefold()
    return wanted in one.name.casefold() or wanted in one.title.casefold()


def _render_targets(chosen: list[Described], width: int) -> str:
    headers = ("NAME", "KIND", "CODE", "FROM", "WHAT IT IS")
    rows = [
        (
            one.name,
            one.kind,
            " ".join(one.architectures),
            ", ".join(dict.fromkeys(item.layer.title for item in one.definitions)),
            _describe_target(one),
        )
        for one in chosen
    ]
    count = sum(1 for _ in read_gpus())
    rest = (
        f"A target is also every one of the {count} GPUs that `torchwheel gpus` lists, native for the GPUs of this "
        "machine, and several joined by commas: a100,t4."
    )
    return "\n".join([format_table(headers, rows, width), "", wrap_paragraph(rest, width)])


def _describe_target(one: Described) -> str:
    """Title and files; a built-in overlay's file is of no use to a reader."""
    files = [item.origin for item in one.definitions if item.layer is not Layer.BUILTIN_OVERLAY]
    return " ".join(filter(None, [one.title, f"({', '.join(files)})" if files else ""]))


def _target_document(one: Described) -> dict[str, Any]:
    return {
        "name": one.name,
        "kind": one.kind,
        "title": one.title,
        "architectures": list(one.architectures),
        "inherits": next((item.inherits for item in reversed(one.definitions) if item.inherits), None),
        "definitions": [{"layer": item.layer.title, "origin": item.origin} for item in one.definitions],
    }


def _nothing_fits(text: str) -> Problem:
    gpu = read_gpus().find(text)
    return Problem.of(
        "unknown-target/search-gpu" if gpu else "unknown-target/search", name=text, gpu=gpu and gpu.name
    )
