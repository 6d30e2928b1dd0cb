"""The report's page: whole, escaped, and shown by a browser.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from progress.test_analysis import GRAPH
from torchwheel.progress.page import analyse_record, render_page
from unit.progress.test_page import build

CHROMIUM = shutil.which("chromium")


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")
def test_a_browser_shows_it(tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text(
        render_page(build(), analyse_record(build(), GRAPH)), encoding="utf-8"
    )
    command = [
        str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
        "--disable-background-networking", "--disable-component-update", f"--user-data-dir={tmp_path / 'profile'}",
        "--enable-logging=stderr", "--window-size=1200,1400", f"--screenshot={tmp_path / 'page.png'}",
        (tmp_path / "report.html").as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=120, check=True)
    # Where its own policy or the parser refused something, the browser's console says so.
    assert "CONSOLE" not in done.stderr
    picture = (tmp_path / "page.png").read_bytes()
    assert struct.unpack(">II", picture[16:24]) == (1200, 1400)
    # An empty page of that size takes less than a third of it.
    assert len(picture) > 30_000
