"""Logs of public reports have the right answer; the logs lie beside the repository, where they are shared."""

from __future__ import annotations

from pathlib import Path

import pytest

from places import REPOSITORY
from torchwheel.diagnosis.failures import Outcome
from torchwheel.diagnosis.scanner import diagnose
from torchwheel.system.toml import read_toml

CASES = REPOSITORY.parent / "shared" / "public-cases"
EXPECTED = read_toml(Path(__file__).with_name("public_cases.toml"))

pytestmark = pytest.mark.skipif(not CASES.is_dir(), reason="the shared public cases are not here")


@pytest.mark.parametrize("name", EXPECTED)
def test_a_public_failure_has_its_id_and_line(name: str) -> None:
    cause = diagnose([(CASES / name).read_bytes()]).cause
    assert cause is not None
    assert [cause.entry.id, cause.line.number] == EXPECTED[name]


def test_every_other_log_is_a_success() -> None:
    logs = {str(path.relative_to(CASES)) for path in CASES.glob("[0-9s]*/*.log")} - EXPECTED.keys()
    found = {name: diagnose([(CASES / name).read_bytes()]).outcome for name in logs}
    assert len(found) == 8
    assert found == dict.fromkeys(logs, Outcome.SUCCEEDED)
