"""The catalogue of messages: it has what code raises, with exactly the values that the texts need, and nothing else.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

import ast

from torchwheel.preflight.report import CHECKS
from torchwheel.reporting.messages import read_messages
from unit.test_messages import ROOT, raise_sites


def keys_in_variables() -> set[str]:
    """Keys that functions pass on: as a text, and as the id in a variable before a variant (``f"{id}/missing"``)."""
    nodes = [
        node for file in ROOT.rglob("*.py") for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    ]
    texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    variants = {text for text in texts if text.startswith("/")}
    return texts & read_messages().keys() | {
        key
        for key in read_messages()
        if key.partition("/")[0] in texts and f"/{key.partition('/')[2]}" in variants
    }


def test_every_message_is_raised() -> None:
    raised = {key for _, _, keys in raise_sites() for key in keys} | keys_in_variables()
    raised |= CHECKS.keys()
    assert read_messages().keys() - raised == set(), "take it out of its messages.toml"
