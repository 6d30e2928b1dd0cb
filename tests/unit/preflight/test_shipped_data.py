"""The rules and the other data files of the preflight have the form that their readers rely on."""

from __future__ import annotations

from pathlib import Path

import pytest

from shipped_data import violations
from torchwheel import preflight
from torchwheel.preflight.facts import toolkit_parts
from torchwheel.preflight.registry import FOLDER
from torchwheel.system.toml import read_toml

HERE = Path(__file__).parent


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.toml")), ids=lambda path: path.name)
def test_rules(path: Path) -> None:
    assert violations(path, HERE / "rules.schema.json") == []


WRONG = """
[[rule]]
id = "No Kebab"
severity = "fatal"
gpu = "yes"
fix = ""
source = "http://example.org"
colour = "red"
"""


def test_a_wrong_rule_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(WRONG, encoding="utf-8")
    found = violations(path, HERE / "rules.schema.json")
    assert len(found) == 8, found
    for key in ("id", "severity", "gpu", "fix", "source"):
        assert any(f"rule[0].{key}: " in fault for fault in found), key
    assert any("'colour' was unexpected" in fault for fault in found)
    for key in ("what", "saves"):
        assert any(f"'{key}' is a required property" in fault for fault in found), key


def test_what_every_tree_needs_of_a_toolkit() -> None:
    always = [part.name for part in toolkit_parts() if not part.mentioned]
    assert always == ["CUDA headers", "nvcc's headers", "cudart"]


def test_limits_of_machines() -> None:
    limits = read_toml(Path(preflight.__file__).with_name("machine_limits.toml"))["limit"]
    assert {limit["option"] for limit in limits} == {"BLAS", "USE_MKLDNN_ACL"}
