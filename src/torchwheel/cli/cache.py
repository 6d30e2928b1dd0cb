"""``torchwheel cache``: what torchwheel keeps on the disk, and how to get rid of it."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from torchwheel.engine.cache import Kept, list_entries, remove_entries
from torchwheel.host.this import cache_folder
from torchwheel.reporting.errors import TorchwheelError, refusal
from torchwheel.reporting.terminal import Answer, fields_of, file_size, format_table
from torchwheel.settings.value_types import Location, whole

_EPILOG = """\
list    shows everything, with what it was made for, or what used it last. An
        environment or toolkit counts as in use while any build runs.
prune   removes what was not used for a while, and builds of deleted sources.
clear   removes everything that is not in use.

The next build recreates what it needs, and compiles from scratch. The folder
itself may be deleted, too.
"""
_DAYS = 30
_UNKNOWN = "?: locks are unsupported here, so it may be in use"


def populate(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    parser.add_argument("action", choices=("list", "prune", "clear"), help="what to do, see below")
    when = f"prune: how long is a while (default: {_DAYS})"
    parser.add_argument("--days", type=_parse_days, default=_DAYS, help=when)
    only = "prune, clear: only list what would be removed"
    parser.add_argument("--dry-run", action="store_true", help=only)


def run(parsed: argparse.Namespace) -> Answer:
    folder = cache_folder(dict(os.environ))
    entries = list_entries(folder)
    removed: Sequence[Kept] = ()
    if parsed.action != "list":
        unused = datetime.now(timezone.utc) - timedelta(days=parsed.days)
        free = [entry for entry in entries if not entry.in_use]
        removed = [one for one in free if parsed.action == "clear" or one.used < unused or one.orphaned]
        if any(entry.in_use is None for entry in removed):
            raise refusal("no-file-locks/removal", origin=folder)
        if not parsed.dry_run:
            removed = tuple(remove_entries(removed))
    left = [entry for entry in entries if parsed.dry_run or entry not in removed]
    document = {
        "folder": str(folder),
        "kept": [_entry_document(one) for one in left],
        "removed": [_entry_document(one) for one in removed],
    }
    if parsed.action == "list":
        return Answer(document, lambda: _render_entries(folder, entries))
    return Answer(document, lambda: _render_removed(removed, dry_run=parsed.dry_run))


def _parse_days(text: str) -> int:
    days = whole(0, 365_000)
    try:
        return int(days.read(text, Location("--days", "--days", str(_DAYS), textual=True)))
    except TorchwheelError:
        raise argparse.ArgumentTypeError(f"{text!r} is not {days.form}") from None


def _render_entries(folder: Path, entries: Sequence[Kept]) -> str:
    if not entries:
        return f"{folder}\nnothing is kept there"
    rows = [
        (
            entry.kind,
            file_size(entry.size),
            "now" if entry.in_use else f"{entry.used:%Y-%m-%d}{'?' * (entry.in_use is None)}",
            entry.path.name,
            _describe_source(entry),
        )
        for entry in entries
    ]
    total = f"{file_size(sum(entry.size for entry in entries))} in all"
    heads = ("KIND", "SIZE", "LAST USED", "NAME", "MADE FOR")
    unknown = [_UNKNOWN] if any(entry.in_use is None for entry in entries) else []
    return "\n".join([str(folder), "", format_table(heads, rows), "", total, *unknown])


def _describe_source(entry: Kept) -> str:
    if entry.source is None:
        return ""
    user = "last used by " if entry.kind in ("environment", "toolkit") else ""
    return f"{user}{entry.source}{'' if entry.has_source else ' (deleted)'}"


def _render_removed(removed: Sequence[Kept], *, dry_run: bool) -> str:
    verb = "would be removed" if dry_run else "removed"
    lines = [f"{verb}: {entry.kind} {entry.path.name}, {file_size(entry.size)}" for entry in removed]
    total = file_size(sum(entry.size for entry in removed))
    return "\n".join([*lines, f"{total} {verb}" if removed else "there is nothing to remove"])


def _entry_document(entry: Kept) -> dict[str, Any]:
    return {
        **fields_of(entry, "kind", "path", "size", "source", "in_use"),
        "used": entry.used.isoformat(timespec="seconds"),
        "source_exists": entry.has_source,
    }
