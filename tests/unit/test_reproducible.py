"""The moment that SOURCE_DATE_EPOCH states, and what nvcc is told."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from refusals import error_of
from torchwheel.reporting.errors import Problem
from torchwheel.reproducible import nvcc_naming, source_date


def test_a_moment() -> None:
    moment = datetime(2024, 7, 1, 12, 30, 15, tzinfo=timezone.utc)
    assert source_date({"SOURCE_DATE_EPOCH": "1719837015"}) == moment


@pytest.mark.parametrize("environment", [{}, {"SOURCE_DATE_EPOCH": ""}], ids=["unset", "empty"])
def test_none(environment: dict[str, str]) -> None:
    assert source_date(environment) is None


@pytest.mark.parametrize("value", ["yesterday", "-1", "1.5", " 1", "٣", "9" * 30])
def test_no_number_of_seconds(value: str) -> None:
    assert error_of(source_date, {"SOURCE_DATE_EPOCH": value}).problems == (
        Problem.of("bad-source-date-epoch", origin="environment variable SOURCE_DATE_EPOCH", value=value),
    )


@pytest.mark.parametrize("release", ["11.8", "12.4", "13.0", "13.5"])
def test_an_object_of_nvcc_depends_neither_on_the_process_nor_on_the_folder(release: str) -> None:
    naming = nvcc_naming(release)
    assert naming is not None
    assert naming.options_for("/pkg._C/csrc/my kernel é.cu") == (
        "-objtemp",
        "-Xcudafe=--orig_src_path_name=/pkg._C/csrc/my_kernel__.cu",
    )


def test_an_nvcc_that_was_never_seen_to_have_the_options_is_told_nothing() -> None:
    assert nvcc_naming("11.7") is None
