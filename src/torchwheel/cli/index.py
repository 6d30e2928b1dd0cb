"""``torchwheel index``: a site of wheels from which every machine takes its own."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from torchwheel.fleet.site import SiteUpdate, update_site
from torchwheel.reporting.errors import refusal
from torchwheel.reporting.terminal import (
    add_json_option,
    count_noun,
    format_facts,
    print_document,
    show,
    terminal_width,
)
from torchwheel.system.paths import exists

_EPILOG = """\
Every wheel is proved first, as `torchwheel verify --no-install` does; one that
is not what it says stops the command, and nothing is added. Wheels of earlier
runs stay. To withdraw one, delete its file in the site and run the command
again, without a DIST.
"""


def populate(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    parser.add_argument("dist", metavar="DIST", nargs="*", help="wheels, and folders with wheels")
    parser.add_argument(
        "-o", "--output", metavar="SITE", required=True, help="the folder of the site, for any web server"
    )
    parser.add_argument(
        "--variants",
        action="store_true",
        help="also an index of wheel variants, from which uv chooses by the GPU; PEP 825 and 850 are drafts",
    )
    add_json_option(parser)


def run(parsed: argparse.Namespace) -> int:
    """Add the wheels, renew the pages, and say what is in the site.

    Raises:
        TorchwheelError: a wheel does not enter, or the site cannot be written.
    """
    sources = [Path(source).absolute() for source in parsed.dist]
    for source in sources:
        if not exists(source):
            raise refusal("unreadable-file", origin=source, reason="No such file or directory")
    site = Path(parsed.output).absolute()
    update = update_site(site, sources, dict(os.environ), variants=parsed.variants)
    if parsed.json:
        print_document(
            "index",
            site=str(site),
            added=list(update.added),
            removed=list(update.removed),
            wheels=[
                {
                    "path": wheel.file.path,
                    "label": wheel.label,
                    "sha256": wheel.file.sha256,
                    "variant": wheel.variant.path if wheel.variant else None,
                    "no_variant": wheel.no_variant,
                }
                for wheel in update.wheels
            ],
        )
    else:
        show(_render_update(update, site))
    return 0


def _render_update(update: SiteUpdate, site: Path) -> str:
    labels = sorted({wheel.label for wheel in update.wheels})
    variants = [wheel for wheel in update.wheels if wheel.variant]
    rows = [
        ("site", f"{site}: {count_noun(len(update.wheels), 'wheel')}"),
        *(("added" if not n else "", path) for n, path in enumerate(update.added)),
        *(("removed" if not n else "", path) for n, path in enumerate(update.removed)),
        *(("indexes" if not n else "", f"{label}/simple") for n, label in enumerate(labels)),
    ]
    if variants:
        rows.append(("variants", f"simple: {count_noun(len(variants), 'wheel')}"))
        refused = [wheel for wheel in update.wheels if not wheel.variant]
        rows += [
            ("no variant" if not n else "", f"{one.file.name}: {one.no_variant}")
            for n, one in enumerate(refused)
        ]
    return format_facts(rows, terminal_width(), ("site", "added", "removed"))
