"""The catalogue of messages: it has what code raises, with exactly the values that the texts need, and nothing else."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from string import Formatter

import pytest

import torchwheel
from torchwheel.preflight.registry import FOLDER
from torchwheel.reporting.errors import Problem
from torchwheel.reporting.masking import MASK
from torchwheel.reporting.messages import FILE, Message, read_messages, respell, settings_written_as
from torchwheel.system.toml import read_toml

ROOT = Path(torchwheel.__file__).parent
FILES = (ROOT / FILE, *sorted(ROOT.glob(f"*/{FILE}")))
TEXTS = {"what", "why", "fix", "more", "example", "exit-status"}
CHOICE = re.compile("'[^']*' if .* else '[^']*'")


def placeholders(message: Message) -> set[str]:
    texts = "".join((message.what, message.why, *message.fix))
    return {name for _, name, _, _ in Formatter().parse(texts) if name is not None}


def keys_of(expression: ast.expr) -> set[str]:
    """The keys that the first argument of a raise site can be."""
    if isinstance(expression, ast.IfExp):
        return keys_of(expression.body) | keys_of(expression.orelse)
    if isinstance(expression, ast.JoinedStr):
        # The part behind the slash decides between variants: f"unknown-{kind}/near".
        pattern = "".join(
            re.escape(str(part.value)) if isinstance(part, ast.Constant) else "[a-z-]*"
            for part in expression.values
        )
        return {key for key in read_messages() if re.fullmatch(pattern, key)}
    return {expression.value} if isinstance(expression, ast.Constant) else set()


def name_of(function: ast.expr) -> str:
    """What is called, where it is a name or an attribute of one."""
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        return f"{function.value.id}.{function.attr}"
    return function.id if isinstance(function, ast.Name) else ""


def values_of(call: ast.Call, assigned: Mapping[str, ast.expr]) -> set[str | None]:
    """The names of a raise site's values; None is among them where a mapping has others."""
    names: set[str | None] = set()
    for keyword in call.keywords:
        mapping = assigned.get(ast.unparse(keyword.value)) if keyword.arg is None else None
        if isinstance(mapping, ast.Dict):
            names |= {key.value if isinstance(key, ast.Constant) else None for key in mapping.keys}
        else:
            names.add(keyword.arg)
    return names - {"origin"}


@cache
def raise_sites() -> tuple[tuple[str, set[str | None], set[str]], ...]:
    """Every call of ``Problem.of`` and ``refusal`` that names its message: the place, its values and keys."""
    return tuple(_raise_sites())


def _raise_sites() -> Iterator[tuple[str, set[str | None], set[str]]]:
    for file in sorted(ROOT.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        # Most files raise nothing of the catalogue, and reading their grammar takes a second.
        if not re.search(r"Problem\s*\.\s*of|refusal", text):
            continue
        for function in (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)):
            nodes = sorted(ast.walk(function), key=lambda node: getattr(node, "lineno", 0))
            # A mapping, or a choice between two keys, may be written out before.
            assigned: dict[str, ast.expr] = {}
            for node in nodes:
                if isinstance(node, ast.Assign):
                    assigned[ast.unparse(node.targets[0])] = node.value
                elif isinstance(node, ast.Call) and name_of(node.func) in ("Problem.of", "refusal"):
                    first = assigned.get(ast.unparse(node.args[0]), node.args[0])
                    keys = keys_of(first if CHOICE.fullmatch(ast.unparse(first)) else node.args[0])
                    if len(node.args) == 1 and keys:
                        yield f"{file.relative_to(ROOT)}:{node.lineno}", values_of(node, assigned), keys


@pytest.mark.parametrize("site", raise_sites(), ids=lambda site: site[0])
def test_a_raise_site_gives_the_values_that_the_texts_need(
    site: tuple[str, set[str | None], set[str]],
) -> None:
    _, given, keys = site
    assert keys <= read_messages().keys()
    if None not in given:
        assert given == set().union(*(placeholders(read_messages()[key]) for key in keys))


def test_an_id_stands_in_one_file() -> None:
    entries = [(id, entry) for file in FILES for id, entry in read_toml(file).items() if id != "exit-status"]
    entries += [(row["id"], row) for file in FOLDER.glob("*.toml") for row in read_toml(file)["rule"]]
    ids = [id for id, entry in entries if "what" in entry]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.parent.name)
def test_the_form_of_a_file(file: Path) -> None:
    entries = read_toml(file)
    assert entries.pop("exit-status") in (1, 2, 3)
    assert list(entries) == sorted(entries)
    for id, entry in entries.items():
        assert re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", id)
        variants = {key for key, value in entry.items() if isinstance(value, dict)} - {"example"}
        assert entry.keys() <= TEXTS | variants, id
        for variant in variants:
            assert entry[variant].keys() <= TEXTS, (id, variant)


@pytest.mark.parametrize("message", read_messages().values(), ids=lambda message: message.key)
def test_an_example_has_the_values_that_its_texts_need(message: Message) -> None:
    assert placeholders(message) <= message.example.keys()
    message.fill(message.example)
    assert message.more.strip() == message.more


def test_a_problem_in_the_words_of_the_catalogue() -> None:
    problem = Problem.of("unknown-gpu/near", origin="-C target", name="rtx5071", meant="rtx5070")
    assert (problem.id, problem.origin, problem.status) == ("unknown-gpu", "-C target", 2)
    assert "rtx5071" in problem.what
    assert "rtx5070" in problem.remedy
    with pytest.raises(KeyError, match="meant"):
        Problem.of("unknown-gpu/near", name="rtx5071")


@pytest.mark.parametrize("message", read_messages().values(), ids=lambda message: message.key)
def test_masking_leaves_the_texts_of_the_catalogue_as_they_are(message: Message) -> None:
    example = dict(message.example)
    problem = Problem.of(message.key, example.pop("origin", ""), **example)
    assert MASK not in problem.render()


def test_a_secret_is_masked_in_a_value_and_where_a_text_gives_it_its_name() -> None:
    given = Problem.of("malformed-config-setting", "-C", item="define.HF_TOKEN=abc")
    assert given.what == "'define.HF_TOKEN=***' is not of the form KEY=VALUE"
    named = Problem.of(
        "unknown-variable/near", "", variable="TORCHWHEEL_TOKEN", meant="TORCHWHEEL_TOKEN", value="abc"
    )
    assert "abc" not in named.render()


def test_a_setting_is_written_as_the_commands_option() -> None:
    with settings_written_as(lambda key, entry: "" if entry else f"--{key} "):
        written = respell("-C cuda-path=./x, or `-C arch=`, -C jobs= or -C define.X=1")
    assert written == "--cuda-path ./x, or `--arch`, --jobs or -C define.X=1"
