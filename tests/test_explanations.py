"""``torchwheel explain`` knows every id that a message can carry, and no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import torchwheel
from test_messages import raise_sites
from torchwheel._toml import read_toml
from torchwheel.diagnosis import catalogue
from torchwheel.explanations import Explanation, explanations
from torchwheel.messages import messages
from torchwheel.preflight.rule_base import rules

ROOT = Path(torchwheel.__file__).parent
PARAMETERS = ("id", "id_")
FROM_ELSEWHERE = re.compile(r"\w+\.id|\w+\['id'\]|id_?")
"""Ids that are passed on: of a rule, an entry of a data file, another problem, or a parameter."""
COMPOSED = {
    "f'no-{name}'": ("no-cmake", "no-ninja"),
    "f'{name}-{fault}'": tuple(
        f"{name}-{fault}"
        for name in ("cmake", "ninja")
        for fault in ("does-not-answer", "too-old", "too-new")
    ),
    "f'unknown-{heir.kind}'": ("unknown-target", "unknown-profile"),
}


def makers(tree: ast.AST) -> dict[str, int]:
    """The functions that make a problem of an id that they are given, and where they take it."""
    positions = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            names = [argument.arg for argument in node.args.args]
            for name in set(PARAMETERS) & set(names):
                if re.search(rf"Problem\((id={name}\b|{name},)", ast.unparse(node)):
                    positions[node.name] = names.index(name)
    return positions


def keys_of_site(node: ast.Call) -> bool:
    """Whether a call names a message of the catalogue (``tests/test_messages.py``)."""
    return ast.unparse(node.func) in ("Problem.of", "refusal") and len(node.args) == 1


def id_expressions(tree: ast.AST, public: dict[str, int]) -> Iterator[ast.expr]:
    """The expressions that are passed as an id."""
    positions = {"Problem": 0, **public, **makers(tree)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or keys_of_site(node):
            continue
        yield from (keyword.value for keyword in node.keywords if keyword.arg in PARAMETERS)
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name in positions and len(node.args) > positions[name]:
            yield node.args[positions[name]]


@cache
def raised_ids() -> dict[str, Path]:
    """Every id that the code can give a message, and a file that does so."""
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(ROOT.rglob("*.py"))}
    constants = {
        target.id: node.value.value
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    public = {
        name: position for tree in trees.values() for name, position in makers(tree).items() if name[0] != "_"
    }
    found = {key.partition("/")[0]: ROOT for _, _, keys in raise_sites() for key in keys}
    for path, tree in trees.items():
        for expression in id_expressions(tree, public):
            text = ast.unparse(expression)
            if isinstance(expression, ast.Constant):
                found[str(expression.value)] = path
            elif text in constants:
                found[str(constants[text])] = path
            elif text in COMPOSED:
                found.update(dict.fromkeys(COMPOSED[text], path))
            else:
                assert FROM_ELSEWHERE.fullmatch(text), (
                    f"{path}: is {text} an id? then this test must learn it"
                )
    return found


WRITTEN = read_toml(ROOT / "explanations.toml")
CATALOGUE = {message.id for message in messages().values()}
OWN = {rule.id for rule in rules().values()} | {entry.id for entry in catalogue()}


def test_the_ids_of_the_code_are_found() -> None:
    assert len(raised_ids()) > 150
    assert {
        "disk-full",
        "wheel-tag",
        "inner-build-failed",
        "unknown-profile",
        "no-ninja",
    } <= raised_ids().keys()


def test_every_id_that_the_code_raises_is_explained() -> None:
    known = {one.id for one in explanations()}
    missing = {id: path for id, path in raised_ids().items() if id not in known}
    assert missing == {}, "explain it in src/torchwheel/explanations.toml"


def test_there_is_no_explanation_for_an_id_that_nobody_raises() -> None:
    unused = WRITTEN.keys() - raised_ids().keys() - OWN
    assert unused == set(), "take it out of src/torchwheel/explanations.toml"


def test_the_explanations_are_in_the_order_of_their_ids() -> None:
    assert list(WRITTEN) == sorted(WRITTEN)


@pytest.mark.parametrize("id", WRITTEN)
def test_an_explanation_has_its_parts(id: str) -> None:
    parts = WRITTEN[id]
    own_rule = id in {rule.id for rule in rules().values()}
    assert set(parts) <= {"why", "change"} if own_rule else set(parts) == {"what", "why", "change"}
    assert all(text == text.strip() and text for text in parts.values())


@pytest.mark.parametrize(
    "one", [one for one in explanations() if one.id not in CATALOGUE], ids=lambda one: f"{one.kind}:{one.id}"
)
def test_what_why_and_what_to_do_are_told_in_words(one: Explanation) -> None:
    for text, least in ((one.what, 3), (one.why, 3), (" ".join(one.change), 1)):
        assert len(re.findall(r"[a-z]{2,}", re.sub(r"<[\w ]+>", "", text))) >= least, (one.id, text)
