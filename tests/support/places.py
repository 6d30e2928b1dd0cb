"""Folders that tests read."""

from __future__ import annotations

from pathlib import Path

SUPPORT = Path(__file__).resolve().parent
TESTS = SUPPORT.parent
REPOSITORY = TESTS.parent
MINITORCH = REPOSITORY / "examples" / "minitorch"
HOSTS = SUPPORT / "preflight" / "hosts"
"""Described machines of two users."""
LOGS = SUPPORT / "diagnosis" / "logs"
"""Logs of failed builds, one or more for each cause."""
REPLAYS = TESTS / "replays"
"""Users' attempts, as they were typed."""
