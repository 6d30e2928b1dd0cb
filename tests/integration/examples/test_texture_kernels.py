"""examples/texture_kernels: three descriptions of one build.

What they build is tested in tests/integration/extension.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from places import REPOSITORY
from torchwheel.extension.options import described_extensions, read_extension_tables
from torchwheel.settings.project import read_project
from torchwheel.system.toml import read_toml

EXAMPLE = REPOSITORY / "examples" / "texture_kernels"
DESCRIPTIONS = {
    "tables": {"pyproject.toml"},
    "setup_py": {"MANIFEST.in", "pyproject.toml", "setup.py"},
    "cmake": {"CMakeLists.txt", "pyproject.toml"},
}
SHARED = {
    "LICENSE",
    "README.md",
    "csrc/cpu/loops.h",
    "csrc/cpu/rgb_to_lab.cpp",
    "csrc/cpu/sobel.cpp",
    "csrc/cuda/elements.cuh",
    "csrc/cuda/operators.cpp",
    "csrc/cuda/rgb_to_lab.cu",
    "csrc/cuda/sobel.cu",
    "csrc/kernels.h",
    "csrc/module.cpp",
    "csrc/operators.cpp",
    "csrc/operators.h",
    "csrc/pixel_math.h",
    "src/texture_kernels/__init__.py",
    "src/texture_kernels/operators.py",
    "src/texture_kernels/py.typed",
    "tests/conftest.py",
    "tests/reference.py",
    "tests/test_rgb_to_lab.py",
    "tests/test_sobel.py",
}


def make_project(way: str, destination: Path) -> subprocess.CompletedProcess[str]:
    script = EXAMPLE / "tools" / "make_project.py"
    command = [sys.executable, "-B", str(script), way, str(destination)]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)


@pytest.mark.parametrize("way", DESCRIPTIONS)
def test_project_has_the_sources_and_one_description(way: str, tmp_path: Path) -> None:
    project = tmp_path / "prøject with spaces"
    result = make_project(way, project)
    assert (result.returncode, result.stderr) == (0, "")
    files = {path.relative_to(project).as_posix() for path in project.rglob("*") if path.is_file()}
    assert files == SHARED | DESCRIPTIONS[way]


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
    (extension,) = described_extensions(tables, EXAMPLE, cuda=cuda, defaults={})
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


def included_by(project: Path, source: str) -> set[str]:
    """The headers that are not the project's own, also those that its own headers include."""
    found: set[str] = set()
    waiting = [project / source]
    while waiting:
        file = waiting.pop()
        for quote, name in re.findall(
            r'^#include ([<"])([^">]+)', file.read_text(encoding="utf-8"), re.MULTILINE
        ):
            if quote == "<":
                found.add(name)
            else:
                waiting.append(file.parent / name)
    return found


def test_kernels_read_no_header_of_pytorch() -> None:
    headers = {
        path.relative_to(EXAMPLE).as_posix(): included_by(EXAMPLE, path.relative_to(EXAMPLE).as_posix())
        for path in (EXAMPLE / "csrc").rglob("*")
        if path.suffix in (".cpp", ".cu")
    }
    from_cuda = {"cuda_bf16.h", "cuda_fp16.h", "cuda_runtime.h"}
    header_only = {
        "torch/csrc/stable/c/shim.h",
        "torch/headeronly/util/BFloat16.h",
        "torch/headeronly/util/Half.h",
    }
    operators = {"ATen/core/Tensor.h", "c10/util/Exception.h", "torch/library.h"}
    guard = {"c10/cuda/CUDAException.h", "c10/cuda/CUDAGuard.h", "c10/cuda/CUDAStream.h"}
    standard = {"Python.h", "algorithm", "cmath", "cstdint", "vector"}
    assert {source: names - standard for source, names in headers.items()} == {
        "csrc/module.cpp": set(),
        "csrc/operators.cpp": operators,
        "csrc/cpu/rgb_to_lab.cpp": header_only,
        "csrc/cpu/sobel.cpp": header_only,
        "csrc/cuda/operators.cpp": operators | guard,
        "csrc/cuda/rgb_to_lab.cu": from_cuda,
        "csrc/cuda/sobel.cu": from_cuda,
    }
