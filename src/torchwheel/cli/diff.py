"""``torchwheel diff``: what differs between two wheels, or between a wheel and an installed torch."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from torchwheel.reporting.terminal import (
    Answer,
    count_noun,
    fields_of,
    file_size,
    format_facts,
    format_table,
    join_items,
    wrap_paragraph,
)
from torchwheel.verification.comparison import Comparison, LibraryChange, Side, compare
from torchwheel.wheel.contents import Library

_NOTHING = "-"
_CHANGES = {
    "names": "NAME",
    "settings": "SETTING",
    "options": "CMAKE OPTION",
    "compilers": "COMPILER",
    "requirements": "REQUIREMENT",
    "needed": "NEEDED BY",
}
_NOT_KNOWN = "settings and CMake options are not known here: torchwheel did not build {paths}"


def populate(parser: argparse.ArgumentParser) -> None:
    for name, word in (("before", "first"), ("after", "second")):
        parser.add_argument(
            name,
            metavar=name.upper(),
            help=f"the {word}: a wheel, or the folder of an installed package (site-packages/torch)",
        )


def run(parsed: argparse.Namespace) -> Answer:
    """Show what differs; the status is 0 whether anything does or not."""
    found = compare(Path(parsed.before), Path(parsed.after))
    is_planned = found.before.contents.plan and found.after.contents.plan
    document = {
        "headline": found.headline,
        "same": found.is_same,
        "before": _side_document(found.before),
        "after": _side_document(found.after),
        **{name: [change._asdict() for change in getattr(found, name)] for name in _CHANGES},
        **({} if is_planned else {"settings": None, "options": None}),
        "libraries": [
            {"path": one.path, "before": _library_document(one.before), "after": _library_document(one.after)}
            for one in found.libraries
        ],
        "files": fields_of(found, "added", "removed", "changed"),
    }
    return Answer(document, lambda: _render_comparison(found))


def _render_comparison(found: Comparison) -> str:
    sides = (found.before, found.after)
    paths = [("before", str(found.before.contents.path)), ("after", str(found.after.contents.path))]
    parts = [wrap_paragraph(found.headline), format_facts(paths, whole=("before", "after"))]
    for name, title in _CHANGES.items():
        if changes := getattr(found, name):
            rows = [(one.name, f"{one.before or _NOTHING} -> {one.after or _NOTHING}") for one in changes]
            parts.append(format_table((title, "BEFORE -> AFTER"), rows))
    if unknown := [str(side.contents.path.name) for side in sides if not side.contents.plan]:
        parts.append(wrap_paragraph(_NOT_KNOWN.format(paths=" and ".join(unknown))))
    if found.libraries:
        sizes = [
            (_describe_size(one.before), _describe_size(one.after), f"{one.path}{_describe_code(one)}")
            for one in found.libraries
        ]
        parts.append(format_table(("BEFORE", "AFTER", "LIBRARY"), sizes))
    files = {"added": found.added, "removed": found.removed, "changed": found.changed}
    lists = [
        (word, f"{count_noun(len(names), 'file')}: {join_items(names)}")
        for word, names in files.items()
        if names
    ]
    return "\n\n".join([*parts, *([format_facts(lists)] if lists else [])])


def _describe_size(library: Library | None) -> str:
    return file_size(library.size) if library else _NOTHING


def _describe_code(change: LibraryChange) -> str:
    before, after = (
        " ".join(image.label for image in library.images) if library else ""
        for library in (change.before, change.after)
    )
    if change.before is None or change.after is None or before == after:
        return f": {before or after}" if before or after else ""
    return f": {before or 'none'} -> {after or 'none'}"


def _side_document(side: Side) -> dict[str, Any]:
    return {
        "path": str(side.contents.path),
        **fields_of(side.contents, "kind", "name", "version"),
        "files": len(side.files),
        **fields_of(side, "size", "packed"),
    }


def _library_document(library: Library | None) -> dict[str, Any] | None:
    return fields_of(library, "size", "images") if library else None
