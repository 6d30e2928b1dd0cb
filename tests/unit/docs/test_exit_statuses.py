"""The page of exit statuses agrees with the code, and so does the help."""

from __future__ import annotations

import re

from docs.exit_statuses import page
from places import REPOSITORY
from torchwheel.cli.main import EXIT_STATUSES
from torchwheel.reporting.messages import read_messages

PAGE = REPOSITORY / "docs" / "exit-statuses.md"


def test_the_page_is_made_of_the_catalogue() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: make docs"


def test_every_status_is_on_the_page_and_in_the_help() -> None:
    used = {0, *(message.status for message in read_messages().values())}
    rows = re.findall(r"^\| (\d) \|", page(), re.MULTILINE)
    assert {int(row) for row in rows} == used == {int(number) for number in re.findall(r"\d", EXIT_STATUSES)}
