"""The one way from a built wheel to one that is handed over."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from refusals import error_of
from torchwheel.reporting.errors import Problem, error
from torchwheel.wheel.contents import WheelContents, inspect_wheel
from torchwheel.wheel.finalize import finalize, prepared_metadata
from wheel_samples import WheelRecipe, agrees_with_record

ONE, OTHER = (Problem(id=name, what=f"{name} is wrong", remedy="mend it") for name in ("one", "other"))


KNOWN = {"severity": "note", "id": "known"}
PROVENANCE = {"target": [], "findings": [KNOWN], "skipped_checks": ["known"]}


def finalized(
    tmp_path: Path,
    *problems: Problem,
    skip_check: tuple[str, ...] = (),
    members: dict[str, int] | None = None,
) -> Path:
    files: dict[Any, bytes] = {}
    for name, mode in (members or {}).items():
        info = zipfile.ZipInfo(name)
        info.external_attr = mode << 16
        files[info] = b""
    built = WheelRecipe(files=files).write(tmp_path)
    (tmp_path / "out").mkdir()

    def verify(contents: WheelContents) -> tuple[Problem, ...]:
        assert contents == inspect_wheel(built)
        return problems

    return finalize(
        built,
        tmp_path / "out",
        verify=verify,
        skip_check=skip_check,
        provenance=PROVENANCE,
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
    assert (document["plan"], document["built"]) == (PROVENANCE, "1980-01-01T00:00:00+00:00")


def test_what_is_wrong_stops_it_and_leaves_the_wheel_where_it_was(tmp_path: Path) -> None:
    assert error_of(finalized, tmp_path, ONE, OTHER, skip_check=("other",)).problems == (ONE,)
    assert list((tmp_path / "out").iterdir()) == []
    assert len(list(tmp_path.glob("*.whl"))) == 1


def test_what_was_skipped_is_recorded(tmp_path: Path) -> None:
    wheel = finalized(tmp_path, ONE, OTHER, skip_check=("one", "other", "more"))
    assert manifest(wheel)["plan"] == {
        "target": [],
        "findings": [KNOWN, error(ONE).document(), error(OTHER).document()],
        "skipped_checks": ["known", "one", "other"],
    }


def test_odd_names_are_said_and_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wheel = finalized(tmp_path, members={"torch/CON.h": 0o644})
    found = [(one["severity"], one["id"]) for one in manifest(wheel)["plan"]["findings"]]
    assert found == [("note", "known"), ("warning", "odd-member")]
    assert "torch/CON.h  [odd-member]" in capsys.readouterr().out


@pytest.mark.parametrize(
    "members", [{"torch/su": 0o104755}, {"torch/sg": 0o102755}, {"numpy-1.0.data/scripts/ls": 0o644}]
)
def test_what_no_honest_build_makes_is_refused(tmp_path: Path, members: dict[str, int]) -> None:
    (problem,) = error_of(finalized, tmp_path, members=members).problems
    (name,) = members
    assert (problem.id, problem.what.endswith(f": {name}")) == ("suspicious-member", True)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_suspicious_member_that_is_let_pass_is_recorded(tmp_path: Path) -> None:
    wheel = finalized(tmp_path, skip_check=("suspicious-member",), members={"torch/su": 0o104755})
    plan = manifest(wheel)["plan"]
    assert plan["skipped_checks"] == ["known", "suspicious-member"]
    assert [one["id"] for one in plan["findings"]] == ["known", "suspicious-member"]


def test_prepared_metadata_need_not_be_there(tmp_path: Path) -> None:
    assert prepared_metadata(None) is None
    assert prepared_metadata(tmp_path) is None
    (tmp_path / "METADATA").write_bytes(b"Name: x\r\n")
    assert prepared_metadata(tmp_path) == b"Name: x\r\n"
