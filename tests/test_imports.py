"""How the modules import each other: at their heads, and never in a circle."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import torchwheel

PACKAGE = Path(torchwheel.__file__).parent
FILES = {
    ".".join((PACKAGE.name, *file.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): file
    for file in PACKAGE.rglob("*.py")
}


def imported(file: Path) -> Iterator[str]:
    """The package's modules that a file imports anywhere in it, for type checkers alone too."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in FILES)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative imports are not followed here"
            names = {f"{node.module}.{alias.name}" for alias in node.names} & FILES.keys()
            yield from names or ({str(node.module)} & FILES.keys())


def circle(graph: dict[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_module_imports_itself_by_way_of_others() -> None:
    assert circle({name: set(imported(file)) for name, file in FILES.items()}) == []
    assert set(circle({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}})) == {"a", "b", "c"}


def inside_functions(file: Path) -> Iterator[tuple[int, str]]:
    """The imports that a function makes when it is called: line number and line."""
    text = file.read_text(encoding="utf-8")
    for function in ast.walk(ast.parse(text)):
        if isinstance(function, ast.FunctionDef):
            for node in ast.walk(function):
                if isinstance(node, (ast.Import, ast.ImportFrom)):
                    yield node.lineno, text.splitlines()[node.lineno - 1]


@pytest.mark.parametrize("name", FILES)
def test_an_import_inside_a_function_says_why_it_is_there(name: str) -> None:
    lines = FILES[name].read_text(encoding="utf-8").splitlines()
    for number, line in inside_functions(FILES[name]):
        assert "#" in line or lines[number - 2].strip().startswith("#"), f"{name}:{number}: {line}"
