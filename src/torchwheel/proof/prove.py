"""The problems of a wheel that needs nothing but its content."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torchwheel.proof.fields import find_false_fields
from torchwheel.proof.libraries import check_libraries
from torchwheel.proof.outcome import Subject
from torchwheel.reporting.errors import Problem
from torchwheel.wheel.contents import WheelContents


def prove_contents(contents: WheelContents, provenance: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what `torchwheel verify` would reject in a wheel that was built, besides what its plan says."""
    yield from find_false_fields(contents)
    yield from check_libraries(Subject(contents, {"plan": provenance}, frozenset())).problems
