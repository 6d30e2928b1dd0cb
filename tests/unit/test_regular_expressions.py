"""Every regular expression of a module, against lines that are made to cost much.

Those of the catalogue of diagnoses are tried in ``tests/integration/diagnosis/test_cost.py``.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import torchwheel

FROM_THE_START = {
    "engine.configuring._NO_FEATURE",
    "engine.relevant_environment._SCRIPT",
    "proof.stable_abi._REQUEST",
    "hardware.architecture._DOTTED",
    "hardware.gpu_catalogue._VARIANT",
    "cli.status._LINKED",
    "cli.status._TARGET",
    "proof.loading.MODULE",
    "toolkit.assemble._VERSIONED_LIBRARY",
    "toolkit.cuda_toolkit._PATCH_RELEASE",
    "toolkit.cuda_toolkit._VERSION",
    "tree.git._SECTION",
    "verification.trial._PACKAGE",
}
"""What is matched from the start of a text only; a search would begin anew at each place."""


def compiled() -> Iterator[tuple[str, re.Pattern[Any], str]]:
    """Name, expression and the text of its module."""
    for module in pkgutil.walk_packages(torchwheel.__path__, "torchwheel."):
        if module.name.endswith("__main__"):
            continue
        loaded = importlib.import_module(module.name)
        source = Path(str(loaded.__file__)).read_text(encoding="utf-8")
        for variable, value in vars(loaded).items():
            if isinstance(value, re.Pattern) and re.search(rf"^{variable} = ", source, re.MULTILINE):
                yield f"{module.name.removeprefix('torchwheel.')}.{variable}", value, source


EXPRESSIONS = list(compiled())


def test_there_are_some_everywhere() -> None:
    assert {name.split(".")[0] for name, _, _ in EXPRESSIONS} >= {"engine", "extension", "tree", "wheel"}
    assert {name for name, _, _ in EXPRESSIONS} >= FROM_THE_START


@pytest.mark.parametrize("name", sorted(FROM_THE_START))
def test_what_is_said_to_be_matched_from_the_start_is(name: str) -> None:
    variable = name.rpartition(".")[2]
    ((_, _, source),) = (one for one in EXPRESSIONS if one[0] == name)
    used = re.findall(rf"\b{variable}(\.\w+)", source)
    assert set(used) <= {".match", ".fullmatch", ".pattern"}
