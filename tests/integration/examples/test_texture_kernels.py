"""examples/texture_kernels: three descriptions of one build.

What they build is tested in tests/integration/extension.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

from places import REPOSITORY
from torchwheel.extension.options import described_extensions, read_extension_tables
from torchwheel.settings.project import read_project
from torchwheel.system.toml import read_toml

EXAMPLE = REPOSITORY / "examples" / "texture_kernels"


def make_project(way: str, destination: Path) -> subprocess.CompletedProcess[str]:
    script = EXAMPLE / "tools" / "make_project.py"
    command = [sys.executable, "-B", str(script), way, str(destination)]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)


def test_project_is_not_made_over_another(tmp_path: Path) -> None:
    result = make_project("cmake", tmp_path)
    assert result.returncode == 2
    message = f"error: {tmp_path} exists already; name a folder that does not"
    assert message in " ".join(result.stderr.split())


def test_metadata_is_the_same_every_way() -> None:
    tables, setup_py, cmake = (
        read_toml(EXAMPLE / folder / "pyproject.toml")
        for folder in (".", "other_ways/setup_py", "other_ways/cmake")
    )
    assert tables["project"] == setup_py["project"] == cmake["project"]
    pytest_options = [description["tool"]["pytest"] for description in (tables, setup_py, cmake)]
    assert pytest_options == [tables["tool"]["pytest"]] * 3
    backends = {description["build-system"]["build-backend"] for description in (tables, setup_py, cmake)}
    assert backends == {"torchwheel.extension.backend"}


def sources_of_tables(cuda: bool) -> list[str]:
    tables = read_extension_tables(read_project(EXAMPLE))
    (extension,) = described_extensions(tables, EXAMPLE, cuda=cuda)
    return sorted(extension.sources)


def test_setup_py_names_the_files_that_the_tables_patterns_match() -> None:
    tree = ast.parse((EXAMPLE / "other_ways/setup_py/setup.py").read_text(encoding="utf-8"))
    lists = [
        ast.literal_eval(node) for node in ast.walk(tree) if isinstance(node, ast.List) and is_sources(node)
    ]
    always, with_cuda = sorted(lists, key=lambda names: any("cuda" in name for name in names))
    assert sorted(always) == sources_of_tables(cuda=False)
    assert sorted(always + with_cuda) == sources_of_tables(cuda=True)


def is_sources(node: ast.List) -> bool:
    return all(isinstance(item, ast.Constant) for item in node.elts)


def test_cmake_has_the_patterns_of_the_tables() -> None:
    (table,) = read_extension_tables(read_project(EXAMPLE))
    text = (EXAMPLE / "other_ways/cmake/CMakeLists.txt").read_text(encoding="utf-8")
    patterns = {
        key: match.split() for key, match in re.findall(r"^  ([A-Z_]+) (\S.*)$", text, flags=re.MULTILINE)
    }
    assert patterns == {
        "NAME": [table.name],
        "SOURCES": list(table.values["sources"]),
        "CUDA_SOURCES": list(table.values["cuda-sources"]),
    }
    assert "\n  LIMITED_API\n" in text
