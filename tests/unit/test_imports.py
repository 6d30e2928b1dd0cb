"""How modules and folders import each other: at the head of a module, and never in a circle."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import torchwheel

PACKAGE = Path(torchwheel.__file__).parent
FILES = {
    ".".join((PACKAGE.name, *file.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): file
    for file in PACKAGE.rglob("*.py")
}


@cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def imported(file: Path) -> tuple[str, ...]:
    """The package's modules that a file imports anywhere in it, for type checkers alone too."""
    return tuple(_imported(file))


def _imported(file: Path) -> Iterator[str]:
    for node in ast.walk(parsed(file)):
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


def test_no_folder_imports_itself_by_way_of_others() -> None:
    def place(name: str) -> str:
        return ".".join(name.split(".")[:2])

    graph: dict[str, set[str]] = {}
    for name, file in FILES.items():
        graph.setdefault(place(name), set()).update({place(one) for one in imported(file)} - {place(name)})
    assert circle(graph) == []


@pytest.mark.parametrize(
    ("name", "most"), [("torchwheel.backend", 116), ("torchwheel.extension.backend", 131)]
)
def test_a_hook_loads_no_more_of_the_package_than_this(name: str, most: int) -> None:
    """The aim is 100 each; one process plans, checks, follows, explains and proves a build."""
    code = f"import sys, {name}; print(*sys.modules, sep='\\n')"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)
    loaded = FILES.keys() & set(answer.stdout.splitlines())
    assert len(loaded) <= most
    assert {one.split(".")[1] for one in loaded if "." in one}.isdisjoint({"cli", "fleet", "index"})


def inside_functions(file: Path) -> Iterator[str]:
    """The lines by which functions import something when they are called, each with the line before it."""
    text = file.read_text(encoding="utf-8")
    lines = text.splitlines()
    # Most files have none, and looking into every function of them takes long.
    if not re.search(r"(?m)(?:^[^\S\n]+|[:;][^\S\n]*)(?:import|from)\b", text):
        return
    for function in ast.walk(parsed(file)):
        if isinstance(function, ast.FunctionDef):
            for node in ast.walk(function):
                if isinstance(node, (ast.Import, ast.ImportFrom)):
                    yield "\n".join(lines[node.lineno - 2 : node.lineno])


def test_an_import_inside_a_function_says_why_it_is_there() -> None:
    imports = [f"{name}:\n{lines}" for name, file in FILES.items() for lines in inside_functions(file)]
    assert [lines for lines in imports if " # " not in lines] == []
    assert imports


def test_an_interruption_is_handled_from_the_first_import_on() -> None:
    """What handles Ctrl-C is the program's first statement; nothing that takes its time is imported before."""
    for module in ("torchwheel", "torchwheel.__main__"):
        heads = [node for node in parsed(FILES[module]).body if isinstance(node, ast.Import | ast.ImportFrom)]
        assert [ast.unparse(node) for node in heads] == ["from __future__ import annotations", "import sys"]
