"""A diagnosis as text and as data.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

import json

import jsonschema
import pytest

from places import LOGS
from shipped_data import document_schema
from torchwheel.diagnosis.diagnosis_page import render, to_dict
from torchwheel.diagnosis.failures import Diagnosis
from torchwheel.diagnosis.scanner import diagnose
from unit.diagnosis.test_render import MEMORY_LOG


@pytest.mark.parametrize("width", [1, 40, 60, 80, 110, 500])
def test_text_keeps_to_the_width(width: int) -> None:
    limit = max(40, min(width, 110))
    for path in sorted(LOGS.glob("*.log")):
        for line in render(diagnose([path.read_bytes()]), width).splitlines():
            longest_word = max(map(len, line.split()), default=0)
            assert (
                len(line) <= limit
                or len(line.split()) <= 3  # number, bar and a word
                or longest_word > limit - 8
                or line.startswith("> ")
            ), (path.name, line)


def every_diagnosis() -> list[Diagnosis]:
    logs = [path.read_bytes() for path in sorted(LOGS.rglob("*.log"))]
    return [diagnose([log]) for log in (*logs, MEMORY_LOG, b"error: it broke\n", b"")]


def test_data_fits_its_schema_and_survives_json() -> None:
    jsonschema.Draft202012Validator.check_schema(document_schema("diagnosis"))
    validator = jsonschema.Draft202012Validator(document_schema("diagnosis"))
    for diagnosis in every_diagnosis():
        data = to_dict(diagnosis)
        validator.validate(data)
        assert json.loads(json.dumps(data)) == data
