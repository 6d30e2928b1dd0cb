"""Diagnose the log of a failed build: its first cause, the meaning and the fix.

``diagnose`` reads a stream, ``render`` and ``to_dict`` show the result. The catalogue is data: ``catalogue/*.toml``.
"""

from __future__ import annotations

from torchwheel.diagnosis.diagnosis_page import render, to_dict
from torchwheel.diagnosis.facts import Facts
from torchwheel.diagnosis.failures import Diagnosis, LogLine, Outcome, Phase, Recognised, read_catalogue
from torchwheel.diagnosis.scanner import diagnose

__all__ = [
    "Diagnosis",
    "Facts",
    "LogLine",
    "Outcome",
    "Phase",
    "Recognised",
    "diagnose",
    "read_catalogue",
    "render",
    "to_dict",
]
