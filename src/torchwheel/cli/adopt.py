"""``torchwheel adopt``: make a PyTorch source tree build through torchwheel, or undo that."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from torchwheel.adopt import adopt, undo
from torchwheel.reporting.errors import refusal
from torchwheel.reporting.terminal import add_json_option, print_document, shell_word, show
from torchwheel.survey import has_extensions


def populate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="the PyTorch source tree")
    parser.add_argument("--undo", action="store_true", help="restore the tree's own build system")
    add_json_option(parser)


def run(parsed: argparse.Namespace) -> int:
    """Adopt or undo, and say which files were touched."""
    path = Path(parsed.path)
    if has_extensions(path):
        raise refusal("not-pytorch/extensions", path=path, word=shell_word(parsed.path))
    report = undo(path) if parsed.undo else adopt(path)
    if parsed.json:
        did = "undone" if parsed.undo else "adopted"
        print_document("adopt", **{"did": did, **asdict(report), "root": str(report.root)})
    else:
        show(report.render())
    return 0
