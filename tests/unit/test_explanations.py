"""``torchwheel explain`` knows every id that a message can carry, and shows each with the values of an example."""

from __future__ import annotations

import re

import pytest

from torchwheel.cli.explain import Explanation, read_explanations
from torchwheel.diagnosis.failures import read_catalogue
from torchwheel.diagnosis.grammar import read_classes
from torchwheel.preflight.registry import read_rules
from torchwheel.reporting.messages import read_messages


def test_every_id_is_explained() -> None:
    ids = {message.id for message in read_messages().values()} | read_rules().keys()
    ids |= {entry.id for entry in read_catalogue()} | read_classes().keys()
    assert {one.id for one in read_explanations()} == ids


@pytest.mark.parametrize("one", read_explanations(), ids=lambda one: f"{one.kind}:{one.id}")
def test_it_is_told_in_words_and_without_placeholders(one: Explanation) -> None:
    text = " ".join((one.what, one.why, one.more, *one.change))
    assert len(re.findall(r"[a-z]{2,}", text)) >= 6
    assert not re.search(r"(?<!\$)\{[a-z]\w*[^}]*\}", text)
