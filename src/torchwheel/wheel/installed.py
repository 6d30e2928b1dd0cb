"""An installed package, read as a wheel is: the files that the RECORD of its *.dist-info folder lists."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torchwheel.reporting.errors import refusal
from torchwheel.system.paths import find_below, is_dir, is_file
from torchwheel.wheel.archive import WheelArchive, open_wheel
from torchwheel.wheel.record import parse_record


@contextmanager
def open_package(path: Path) -> Iterator[WheelArchive]:
    """Open a wheel, or the folder of an installed package, ``site-packages/torch``."""
    if is_dir(path):
        yield _open_installed(path.resolve())
        return
    with open_wheel(path) as archive:
        yield archive


def _open_installed(folder: Path) -> WheelArchive:
    site = folder.parent
    for record in find_below(site, "*.dist-info/RECORD"):
        rows = parse_record(record.read_bytes(), str(record))
        if any(row.path == f"{folder.name}/__init__.py" for row in rows):
            members = {}
            for name in (row.path for row in rows if is_file(site / row.path)):
                members[name] = zipfile.ZipInfo(name)
                members[name].file_size = (site / name).stat().st_size
            info = record.parent.name
            if {f"{info}/{file}" for file in ("METADATA", "WHEEL", "RECORD")} <= members.keys():
                return WheelArchive(folder, members, info, site)
    raise refusal("no-distribution-found", folder=folder)
