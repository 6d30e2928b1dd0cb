"""What holds for every test."""

from __future__ import annotations

import gc
import importlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import settings

# How long an example takes says how busy the machine is; pytest-timeout catches what never ends.
settings.register_profile("torchwheel", deadline=None)
settings.load_profile("torchwheel")


def _check_syntax_of_iri(term: str, value: str) -> bool:
    sys.modules.pop("rfc3987_syntax", None)
    checked: bool = importlib.import_module("rfc3987_syntax").is_valid_syntax(term, value)
    return checked


# jsonschema imports it, and it makes a parser of each of its 38 terms, for seconds: it is loaded with the first IRI.
sys.modules["rfc3987_syntax"] = ModuleType("rfc3987_syntax")
vars(sys.modules["rfc3987_syntax"])["is_valid_syntax"] = _check_syntax_of_iri


def pytest_collection_finish() -> None:
    """What was collected stays until the end, and is not looked through for garbage again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def plain_path() -> Iterator[Path]:
    """An empty folder without a blank in its path, whatever TMPDIR is: for tools that take no other."""
    place = "/tmp" if os.name == "posix" else None
    with tempfile.TemporaryDirectory(prefix="torchwheel-test-", dir=place) as folder:
        yield Path(folder).resolve()
