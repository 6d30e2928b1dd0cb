"""The one way from a built wheel to one that is handed over."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from torchwheel.errors import Problem, TorchwheelError
from torchwheel.findings import Finding
from torchwheel.wheel.contents import WheelContents, inspect_wheel
from torchwheel.wheel.finalize import finalize, prepared_metadata
from wheel_samples import WheelRecipe, agrees_with_record

ONE, OTHER = (Problem(id=name, what=f"{name} is wrong", remedy="mend it") for name in ("one", "other"))


def provenance(passed: tuple[Finding, ...]) -> Mapping[str, Any]:
    names = ("target", "profile", "layers", "toolchain", "source", "options", "skipped_checks")
    return {**{name: [] for name in names}, "findings": [finding.id for finding in passed]}


def finalized(tmp_path: Path, *problems: Problem, skip_check: tuple[str, ...] = ()) -> Path:
    built = WheelRecipe().write(tmp_path)
    (tmp_path / "out").mkdir()

    def verify(contents: WheelContents) -> tuple[Problem, ...]:
        assert contents == inspect_wheel(built)
        return problems

    return finalize(
        built,
        tmp_path / "out",
        verify=verify,
        skip_check=skip_check,
        provenance=provenance,
        environment={"SOURCE_DATE_EPOCH": "315532800"},
    )


def manifest(wheel: Path) -> dict[str, Any]:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/torchwheel.json"))
        document: dict[str, Any] = json.loads(archive.read(name))
        return document


def test_a_sound_wheel_is_moved_with_its_manifest(tmp_path: Path) -> None:
    wheel = finalized(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]
    assert list((tmp_path / "out").iterdir()) == [wheel]
    assert agrees_with_record(wheel)
    document = manifest(wheel)
    assert (document["plan"]["findings"], document["built"]) == ([], "1980-01-01T00:00:00+00:00")


def test_what_is_wrong_stops_it_and_leaves_the_wheel_where_it_was(tmp_path: Path) -> None:
    with pytest.raises(TorchwheelError) as caught:
        finalized(tmp_path, ONE, OTHER, skip_check=("other",))
    assert caught.value.problems == (ONE,)
    assert list((tmp_path / "out").iterdir()) == []
    assert len(list(tmp_path.glob("*.whl"))) == 1


def test_what_was_skipped_is_recorded(tmp_path: Path) -> None:
    wheel = finalized(tmp_path, ONE, OTHER, skip_check=("one", "other", "more"))
    assert manifest(wheel)["plan"]["findings"] == ["one", "other"]


def test_prepared_metadata_need_not_be_there(tmp_path: Path) -> None:
    assert prepared_metadata(None) is None
    assert prepared_metadata(tmp_path) is None
    (tmp_path / "METADATA").write_bytes(b"Name: x\r\n")
    assert prepared_metadata(tmp_path) == b"Name: x\r\n"
