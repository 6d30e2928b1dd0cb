"""``torchwheel explain`` knows every id that a message can carry, and shows each with the values of an example."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

import torchwheel
from torchwheel._toml import read_toml
from torchwheel.diagnosis import catalogue, diagnose
from torchwheel.diagnosis.grammar import classes
from torchwheel.explanations import Explanation, explanations
from torchwheel.messages import messages
from torchwheel.preflight.rule_base import rules

EXAMPLES = read_toml(Path(torchwheel.__file__).parent / "diagnosis" / "examples.toml")
LOGS = Path(__file__).parent / "diagnosis" / "logs"


def test_every_id_is_explained() -> None:
    ids = {message.id for message in messages().values()} | rules().keys()
    ids |= {entry.id for entry in catalogue()} | classes().keys()
    assert {one.id for one in explanations()} == ids


@pytest.mark.parametrize("one", explanations(), ids=lambda one: f"{one.kind}:{one.id}")
def test_it_is_told_in_words_and_without_placeholders(one: Explanation) -> None:
    text = " ".join((one.what, one.why, one.more, *one.change))
    assert len(re.findall(r"[a-z]{2,}", text)) >= 6
    assert not re.search(r"(?<!\$)\{[a-z]\w*[^}]*\}", text)


def test_the_examples_of_diagnoses_are_in_the_order_of_their_ids() -> None:
    assert list(EXAMPLES) == sorted(EXAMPLES)
    assert EXAMPLES.keys() <= {entry.id for entry in (*catalogue(), *classes().values())}


def logs_of(id: str) -> list[Path]:
    return [log for pattern in (f"{id}.log", f"{id}.*.log") for log in LOGS.rglob(pattern)]


@pytest.mark.parametrize("id", [id for id in EXAMPLES if logs_of(id)])
def test_the_example_of_a_diagnosis_is_found_in_one_of_its_logs(id: str) -> None:
    found = [diagnose(io.BytesIO(log.read_bytes())).cause for log in logs_of(id)]
    captures = [cause.captures for cause in found if cause is not None and cause.entry.id == id]
    assert any(EXAMPLES[id].items() <= one.items() for one in captures)
