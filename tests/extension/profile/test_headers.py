"""Which headers a source's text is made of, their names, and whose they are."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchwheel.extension.profile.headers import header_name, is_foreign, matches, read_source_text
from torchwheel.extension.profile.model import HeaderText, SourceText

FOLDERS = ("torch/include", "torch/include/torch/csrc/api/include/", "C:\\CUDA\\v13.0\\include")


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("torch/include/torch/extension.h", "torch/extension.h"),
        ("torch/include/torch/csrc/api/include/torch/all.h", "torch/all.h"),
        ("/usr/include/c++/12/vector", "vector"),
        ("/usr/include/c++/12/bits/stl_algo.h", "bits/stl_algo.h"),
        ("/usr/lib/gcc/x86_64-linux-gnu/12/../../../../include/c++/12/vector", "vector"),
        ("/Library/SDKs/MacOSX.sdk/usr/include/c++/v1/vector", "vector"),
        ("/usr/local/cuda-13.0/bin/../targets/x86_64-linux/include/cuda_fp16.h", "cuda_fp16.h"),
        ("C:/CUDA/v13.0/include/cub/cub.cuh", "cub/cub.cuh"),
        ("/opt/odd/header.h", "/opt/odd/header.h"),
    ],
)
def test_a_header_is_named_as_an_include_spells_it(path: str, name: str) -> None:
    assert header_name(path, FOLDERS) == name


def test_patterns() -> None:
    assert matches("torch/extension.h", ("ATen/*", "torch/*"))
    assert matches("torch/all.h", ("torch/all.h",))
    assert not matches("torch/all.hpp", ("torch/all.h",))
    assert not matches("torchvision/x.h", ("torch/*",))


def test_the_projects_files_are_not_somebody_elses(tmp_path: Path) -> None:
    project, folder, other = tmp_path / "proj é", tmp_path / "build", tmp_path / "other"
    for path in (project, folder, other):
        path.mkdir()
    (folder / "source").symlink_to(project, target_is_directory=True)
    (folder / "torch").symlink_to(other, target_is_directory=True)

    def foreign(path: str, name: str, *, system: bool = False) -> bool:
        return is_foreign(path, system, name, project, folder)

    assert not foreign("source/csrc/own.h", "own.h")
    assert not foreign("unity/unity-0.cpp", "unity-0.cpp")
    assert not foreign(str(project / "own.h"), "own.h")
    assert foreign("torch/other.h", "other.h")
    assert foreign("source/.venv/include/Python.h", "Python.h", system=True)
    assert foreign("source/third_party/cutlass/include/cutlass/gemm.h", "cutlass/gemm.h")


GCC = """\
# 0 "source/a.cpp"
# 0 "<built-in>"
# 0 "<command-line>"
# 1 "/usr/include/stdc-predef.h" 1 3 4
int predefined;
# 0 "<command-line>" 2
# 1 "source/a.cpp"
# 1 "source/own \\"x\\" é.h" 1
own1
# 1 "torch/include/torch/extension.h" 1 3
ext1

  ext2
# 1 "torch/include/c10/core.h" 1 3
core
# 5 "torch/include/torch/extension.h" 2 3
ext3
# 4 "source/own \\"x\\" é.h" 2
# 1 "/usr/include/c++/12/vector" 1 3
vec
# 5 "source/own \\"x\\" é.h" 2
own2
# 2 "source/a.cpp" 2
int main;
# 1 "torch/include/c10/core.h" 1 3
again
# 3 "source/a.cpp" 2
"""

CLANG = """\
# 1 "source/a.cpp"
# 1 "<built-in>" 1
# 1 "<built-in>" 3
# 404 "<built-in>" 3
# 1 "<command line>" 1
# 1 "<built-in>" 2
# 1 "source/a.cpp" 2
# 1 "/usr/lib/gcc/x/12/../../../../include/c++/12/vector" 1 3
vec
# 2 "source/a.cpp" 2
int main;
"""

NVCC = """\
# 0 "source/a.cu"
# 0 "<built-in>"
# 0 "<command-line>"
# 1 "/usr/local/cuda-13.0/bin/../targets/x86_64-linux/include/cuda_runtime.h" 1
runtime
# 1 "/usr/local/cuda-13.0/bin/../targets/x86_64-linux/include/crt/host_config.h" 1
config
# 85 "/usr/local/cuda-13.0/bin/../targets/x86_64-linux/include/cuda_runtime.h" 2
# 0 "<command-line>" 2
# 1 "source/a.cu"
kernel
"""


def foreign(path: str, system: bool) -> bool:
    return system or not path.startswith("source/")


def read(text: str) -> SourceText:
    return read_source_text(
        text.encode().splitlines(keepends=True), foreign, lambda path: path.rpartition("/")[2]
    )


def test_text_belongs_to_the_outermost_header_that_is_not_the_projects() -> None:
    extension = HeaderText("extension.h", 4, len("ext1ext2coreext3"))
    vector, core = HeaderText("vector", 1, len("vec")), HeaderText("core.h", 1, len("again"))
    whole = len("int predefined;own1ext1ext2coreext3vecown2int main;again")
    assert read(GCC) == SourceText((extension, vector, core), 10, whole)


def test_clang_enters_the_command_line_as_a_file() -> None:
    assert read(CLANG) == SourceText((HeaderText("vector", 1, 3),), 2, len("vecint main;"))


def test_what_a_compiler_includes_by_itself_is_nobodys_header() -> None:
    assert read(NVCC) == SourceText((), 3, len("runtimeconfigkernel"))


def test_escaped_names() -> None:
    text = read('# 1 "source/a.cpp"\n# 1 "/x/a\\\\b\\303\\251.h" 1 3\nx\n')
    assert text.headers == (HeaderText("a\\bé.h", 1, 1),)


WORDS = st.text("abc", min_size=1)
TREES = st.recursive(st.lists(WORDS, max_size=3), lambda inner: st.lists(inner | WORDS, max_size=4))


def written(tree: object, path: str, number: list[int]) -> tuple[str, int]:
    """A header's preprocessed text with those below it, and its size."""
    text, size = "", 0
    assert isinstance(tree, list)
    for item in tree:
        if isinstance(item, str):
            text, size = text + f"{item}\n", size + len(item)
        else:
            number[0] += 1
            below = f"/lib/h{number[0]}.h"
            inner, inner_size = written(item, below, number)
            text += f'# 1 "{below}" 1 3\n{inner}# 2 "{path}" 2 3\n'
            size += inner_size
    return text, size


@given(st.lists(TREES, max_size=4))
def test_each_header_has_the_text_of_all_below_it(trees: list[object]) -> None:
    number, whole, expected = [0], '# 1 "source/a.cpp"\n', []
    for tree in trees:
        number[0] += 1
        path = f"/lib/h{number[0]}.h"
        name = path.rpartition("/")[2]
        text, size = written(tree, path, number)
        whole += f'# 1 "{path}" 1 3\n{text}# 2 "source/a.cpp" 2\n'
        if size:
            expected.append((name, size))
    found = read(whole)
    assert [(header.name, header.size) for header in found.headers] == expected
    assert found.size == sum(size for _, size in expected)


def test_a_real_preprocessor(tmp_path: Path) -> None:
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("there is no g++ or clang++ here")
    (tmp_path / "lib é").mkdir()
    (tmp_path / "lib é" / "big.h").write_text('#include "small.h"\nint big;\n', encoding="utf-8")
    (tmp_path / "lib é" / "small.h").write_text("int small;\n", encoding="utf-8")
    (tmp_path / "a b.cpp").write_text("#include <big.h>\nint own;\n", encoding="utf-8")
    command = [compiler, "-E", "-isystem", "lib é", "a b.cpp"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True, timeout=60)
    text = read_source_text(done.stdout.splitlines(keepends=True), lambda _, system: system, str)
    assert text.headers == (HeaderText("lib é/big.h", 2, len("int small;int big;")),)
