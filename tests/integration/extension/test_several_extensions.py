"""Several extensions in one build: each is compiled as its own description says."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest

from extension.projects import CMAKE, HEAD, MODULE, PROJECT, TABLE, WAYS, Built

OWN = MODULE.replace("PyInit__C", "INIT(TORCH_EXTENSION_NAME)").replace(
    "#include <Python.h>\n", "#include <Python.h>\n#define NAMED(x) PyInit_##x\n#define INIT(x) NAMED(x)\n"
)
MODULES = {"tiny/_C": "1", "tiny/_D": "2", "other/_C": "3"}


def modules(built: Built) -> dict[str, tuple[str, str]]:
    """Of each module in the wheel the name that it has for Python, and what it was compiled from."""
    (wheel,) = (built.folder / "out").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        contents = {
            name.partition(".")[0]: archive.read(name) for name in archive.namelist() if ".so" in name
        }
    found = {}
    for name, content in contents.items():
        called, compiled = re.search(rb"PyInit_(\w+)", content), re.search(rb"mark: ([^;]*);", content)
        assert called
        assert compiled
        found[name] = (called[1].decode(), compiled[1].decode())
    return found


@pytest.mark.parametrize("way", ["tables", "CMake"])
def test_each_has_its_own_flags(tmp_path: Path, way: str) -> None:
    """Of one source, and modules of one name in two packages."""
    built = Built(tmp_path, way)
    built.write("csrc/bind.cpp", OWN)
    names = {name.replace("/", "."): given for name, given in MODULES.items()}
    tables = "".join(
        f"{TABLE.replace('tiny._C', name)}define.GIVEN = {given}\n" for name, given in names.items()
    )
    calls = "".join(
        f"torchwheel_add_extension(NAME {name} SOURCES csrc/*.cpp INCLUDE_DIRS include DEFINE GIVEN={given})\n"
        for name, given in names.items()
    )
    start = CMAKE.partition("torchwheel_add")[0]
    built.write("pyproject.toml", HEAD + PROJECT + (tables if way == "tables" else ""))
    if way != "tables":
        built.write("CMakeLists.txt", start + calls)
    status, text = built.said()
    assert status == 0, text
    assert modules(built) == {name: (name[-2:], f"first, {given}") for name, given in MODULES.items()}


def test_each_project_of_one_cmake_tree_has_its_own_sources(tmp_path: Path) -> None:
    """They may have the same names, and reach the compilers by a link to each project's folder."""
    built = Built(tmp_path, "CMake")
    call = "torchwheel_add_extension(NAME {} SOURCES csrc/*.cpp INCLUDE_DIRS ${{CMAKE_SOURCE_DIR}}/include)\n"
    text = CMAKE.partition("torchwheel_add")[0] + call.format("tiny._1")
    for folder, given in ((".", "1"), ("other", "2"), ("more/other", "3")):
        built.write(f"{folder}/csrc/bind.cpp", f"#define GIVEN {given}\n{OWN}")
        if folder != ".":
            built.write(f"{folder}/CMakeLists.txt", call.format(f"tiny._{given}"))
            text += (
                f"set(TORCHWHEEL_PROJECT_DIR ${{CMAKE_SOURCE_DIR}}/{folder})\nadd_subdirectory({folder})\n"
            )
    built.write("CMakeLists.txt", text)
    status, text = built.said()
    assert status == 0, text
    assert modules(built) == {f"tiny/_{given}": (f"_{given}", f"first, {given}") for given in "123"}


@pytest.mark.parametrize("way", list(WAYS))
def test_one_that_is_called_like_a_link_is_not_written_behind_it(tmp_path: Path, way: str) -> None:
    """Its objects would lie in the installed PyTorch. Besides, the hook's own variables are not called the user's."""
    built, torch = Built(tmp_path, way), tmp_path / "site-packages/torch"
    built.write("csrc/bind.cpp", OWN)
    for file in WAYS[way]:
        text = (built.project / file).read_text(encoding="utf-8")
        built.write(file, text.replace("tiny._C", "torch"))
    before = set(torch.rglob("*"))
    status, text = built.said({"skip-check": "missing-module", "env.API_TOKEN": "a secret"})
    new = {path for path in set(torch.rglob("*")) - before if "__pycache__" not in path.parts}
    assert (status, new, "a secret" in text, "by variable" in text) == (0, set(), False, False), text
    layers = built.manifest()["plan"]["layers"]
    assert [one["key"] for one in layers if one["layer"] == "environment"] == []
