"""Where the installed PyTorch is found: every answer is compared with what Python imports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from extension.torch_trees import TorchTree, write_metadata
from torchwheel.torch_install.installed_torch import TorchLocation

# An interpreter that has these folders, with their .pth files, before what torchwheel itself needs.
_PROGRAM = """
import json, site, sys
folders, others = (json.loads(words) for words in sys.argv[1:])
sys.path[:0] = folders
for folder in folders:
    if folder.endswith("-packages"):
        site.addsitedir(folder)
sys.path += others
from torchwheel.torch_install.installed_torch import locate_torch
found = locate_torch()
loaded = [name for name in sys.modules if name.partition(".")[0] == "torch"]
import importlib
def file_of(module):
    try:
        return importlib.import_module(module).__file__
    except ImportError:
        return None
print(json.dumps({
    "found": [str(found.root), found.built_in_place] if found else None,
    "loaded": loaded,
    "torch": file_of("torch"),
    "version": file_of("torch.version"),
}))
"""


def located(*search_path: Path) -> TorchLocation | None:
    """What is found in an interpreter of its own, if that is also what it imports afterwards, and not before."""
    # Without what is installed for the tests, but for torchwheel and what it needs.
    words = [json.dumps(list(map(str, search_path))), json.dumps(sys.path)]
    command = [sys.executable, "-I", "-S", "-X", "utf8", "-c", _PROGRAM, *words]
    run = subprocess.run(command, check=True, capture_output=True, encoding="utf-8", timeout=60)
    answer = json.loads(run.stdout.splitlines()[-1])
    assert answer["loaded"] == []
    if answer["found"] is None:
        assert answer["torch"] is None
        return None
    root, built_in_place = answer["found"]
    assert answer["version"] == str(Path(root, "version.py"))
    return TorchLocation(Path(root), built_in_place)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "venv/lib/python3.11/site-packages"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A source tree that was built in place."""
    folder = tmp_path / "Quelle's é"
    TorchTree(version="2.6.0a0").write(folder / "torch")
    (folder / "CMakeLists.txt").touch()
    return folder


def test_none(tmp_path: Path, site: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    assert located(site, tmp_path / "file", tmp_path / "library.zip") is None


def test_a_line_in_a_pth_file(site: Path, tree: Path) -> None:
    text = f"# a comment\n\nimport sys\n{tree}\n"
    (site / "__editable__.torch-2.6.0a0.pth").write_text(text, encoding="utf-8")
    write_metadata(site, "2.6.0a0")
    assert located(site) == TorchLocation(tree / "torch", built_in_place=True)


class TestScikitBuildCoreFinder:
    """An editable install of 2.14 in redirect mode: Python files in the source tree, what was built elsewhere."""

    @pytest.fixture(params=["the site", "a folder of its own"])
    def built(self, site: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
        editable = pytest.importorskip("scikit_build_core.build._editable")
        source = tmp_path / "Quelle's é/torch"
        root = site / "torch" if request.param == "the site" else tmp_path / "build/installed/torch"
        tree = TorchTree()
        tree.write(root)
        (root / "__init__.py").unlink()
        tree.write_python(source)
        text = editable.editable_redirect(
            modules={
                "torch": str(source / "__init__.py"),
                "torchgen": str(source.parent / "torchgen/__init__.py"),
            },
            installed={
                "torch.version": str(root / "version.py"),
                "torch.lib.libc10": str(root / "lib/libc10.so"),
            },
            directories={"torch": [str(source), str(root)], "torch.lib": [str(root / "lib")]},
            packages=["torch"],
            reload_dir=None,
            rebuild=False,
            verbose=False,
            build_options=[],
            install_options=[],
            install_dir="",
        )
        (site / "_editable_skbc_torch.py").write_text(text, encoding="utf-8")
        pth = f"import _editable_skbc_torch\n{source.parent}\n"
        (site / "_editable_skbc_torch.pth").write_text(pth, encoding="utf-8")
        write_metadata(site, "2.14.1+cpu")
        return root

    def test_what_was_built(self, site: Path, built: Path) -> None:
        assert located(site) == TorchLocation(built, built_in_place=True)
