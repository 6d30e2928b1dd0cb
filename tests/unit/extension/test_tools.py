"""The tool that makes the list of stable functions."""

from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

from places import REPOSITORY
from torchwheel.proof.stable_abi import read_history

TOOLS = REPOSITORY / "tools"

HEADER = """
// AOTI_TORCH_EXPORT void torch_in_a_comment();
/* AOTI_TORCH_EXPORT void torch_in_another(); */
#define AOTI_TORCH_EXPORT __attribute__((__visibility__("default")))
AOTI_TORCH_EXPORT AOTITorchError aoti_torch_get_dim(
    AtenTensorHandle tensor,
    int64_t* ret_dim);
AOTI_TORCH_EXPORT const char* torch_exception_get_what();
static inline void torch_not_exported() {}
"""


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# They print what a person completes or looks up.
PRINTS = {"toolkit_row", "tree_news"}


@pytest.mark.parametrize("name", sorted({path.stem for path in TOOLS.glob("*.py")} - PRINTS))
def test_every_tool_replaces_a_file_that_is_there(name: str) -> None:
    target = loaded(name)._TARGET
    assert target.is_file()
    assert f"tools/{name}.py" in target.read_text(encoding="utf-8")


def written(folder: Path, version: str, header: str) -> Path:
    path = folder / f"torch-{version}-cp312-none-macosx_11_0_arm64.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("torch/include/torch/csrc/stable/c/shim.h", header)
        archive.writestr(
            "torch/include/torch/csrc/stable/tensor.h", "AOTI_TORCH_EXPORT void torch_elsewhere();"
        )
    return path


def test_functions_by_the_release_that_adds_them(tmp_path: Path) -> None:
    tool = loaded("shim_functions")
    old = tool.declared_functions(written(tmp_path, "2.9.1", HEADER))
    new = tool.declared_functions(
        written(tmp_path, "2.10.0", f"{HEADER}AOTI_TORCH_EXPORT int torch_from_blob(void);")
    )
    assert old == {"aoti_torch_get_dim", "torch_exception_get_what"}
    data = tmp_path / "functions.toml"
    data.write_text("".join(tool.rendered({"2.9": old, "2.10": new})), encoding="utf-8")
    history = read_history(data)
    assert history.newest == "2.10"
    assert history.since == {
        "aoti_torch_get_dim": "2.9",
        "torch_exception_get_what": "2.9",
        "torch_from_blob": "2.10",
    }
