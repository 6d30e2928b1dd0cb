"""SOURCE_DATE_EPOCH."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from torchwheel.errors import Problem, TorchwheelError
from torchwheel.wheel.timestamps import source_date


def test_a_moment() -> None:
    moment = datetime(2024, 7, 1, 12, 30, 15, tzinfo=timezone.utc)
    assert source_date({"SOURCE_DATE_EPOCH": "1719837015"}) == moment


@pytest.mark.parametrize("environment", [{}, {"SOURCE_DATE_EPOCH": ""}], ids=["unset", "empty"])
def test_none(environment: dict[str, str]) -> None:
    assert source_date(environment) is None


@pytest.mark.parametrize("value", ["yesterday", "-1", "1.5", " 1", "٣", "9" * 30])
def test_no_number_of_seconds(value: str) -> None:
    with pytest.raises(TorchwheelError) as caught:
        source_date({"SOURCE_DATE_EPOCH": value})
    assert caught.value.problems == (
        Problem(
            id="bad-source-date-epoch",
            what=f"SOURCE_DATE_EPOCH is {value!r}",
            remedy="set it to whole seconds since 1970, e.g. $(git log -1 --format=%ct), or unset it",
            origin="environment variable SOURCE_DATE_EPOCH",
        ),
    )
