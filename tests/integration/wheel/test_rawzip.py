"""Archives beyond the limits of the original zip format.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

import io
import zipfile

from torchwheel.wheel.rawzip import EARLIEST, RawZipWriter


def test_more_than_65535_members() -> None:
    stream = io.BytesIO()
    writer = RawZipWriter(stream)
    count = 66_000
    for number in range(count):
        writer.add(f"{number}", b"", EARLIEST)
    writer.finish()
    with zipfile.ZipFile(stream) as archive:
        assert archive.namelist() == [f"{number}" for number in range(count)]
