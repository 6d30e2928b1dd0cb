"""RECORD, read, written and compared with the files.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

from pathlib import Path

from torchwheel.wheel.archive import open_wheel
from torchwheel.wheel.record import RecordRow, read_record


def test_a_right_record(foreign_wheel: Path) -> None:
    with open_wheel(foreign_wheel) as archive:
        listed = {row.path: row for row in read_record(archive)}
        assert listed.keys() == archive.members.keys()
        assert listed[f"{archive.dist_info}/RECORD"] == RecordRow(f"{archive.dist_info}/RECORD", "", "")
