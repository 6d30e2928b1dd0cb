"""``torchwheel adopt``: make a PyTorch source tree build through torchwheel, or undo that."""

from __future__ import annotations

import argparse
from pathlib import Path

from torchwheel.adopt import adopt, undo
from torchwheel.cli.answer import Answer
from torchwheel.reporting.errors import refusal
from torchwheel.reporting.terminal import fields_of, shell_word
from torchwheel.survey import has_extensions


def populate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="the PyTorch source tree")
    parser.add_argument("--undo", action="store_true", help="restore the tree's own build system")


def run(parsed: argparse.Namespace) -> Answer:
    path = Path(parsed.path)
    if has_extensions(path):
        raise refusal("not-pytorch/extensions", path=path, word=shell_word(parsed.path))
    report = undo(path) if parsed.undo else adopt(path)
    did = "undone" if parsed.undo else "adopted"
    files = fields_of(report, "root", "backend", "created", "edited", "removed")
    return Answer({"did": did, **files}, report.render)
