"""Where the installed PyTorch is found: every answer is compared with what Python imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from extension.torch_trees import TorchTree, install
from torchwheel.extension.torch_install.installed_torch import TorchOrigin, find_torch, installed_torch
from torchwheel.extension.torch_install.torch_location import TorchLocation, locate_torch, torch_leftovers

_IMPORT = """
import site, sys
sys.path[:0] = sys.argv[2:]
for folder in sys.argv[2:]:
    if folder.endswith("-packages"):
        site.addsitedir(folder)
import importlib
print(importlib.import_module(sys.argv[1]).__file__, end="")
"""


def imported(module: str, *search_path: Path) -> Path:
    """The file that Python itself imports a module from, without what is installed for the tests."""
    command = [sys.executable, "-I", "-S", "-X", "utf8", "-c", _IMPORT, module, *map(str, search_path)]
    run = subprocess.run(command, check=True, capture_output=True, encoding="utf-8", timeout=60)
    return Path(run.stdout)


def located(*search_path: Path) -> TorchLocation | None:
    return locate_torch([str(folder) for folder in search_path])


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
    return folder


def test_a_wheel(site: Path) -> None:
    root = install(site)
    assert located(site) == TorchLocation(root, site, editable=False)
    assert imported("torch", site) == root / "__init__.py"


def test_the_first_on_the_path(tmp_path: Path) -> None:
    first, second = tmp_path / "1/site-packages", tmp_path / "2/dist-packages"
    (first / "torch").mkdir(parents=True)  # left over: not what an import finds if there is a real one
    root = install(second)
    install(tmp_path / "3/site-packages")
    folders = (tmp_path / "missing", first, second, tmp_path / "3/site-packages")
    assert located(*folders) == TorchLocation(root, second, editable=False)
    assert imported("torch", *folders) == root / "__init__.py"


def test_the_current_folder(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree)
    assert locate_torch([""]) == TorchLocation(tree / "torch", tree, editable=False)


def test_sys_path_is_the_default(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = install(site)
    monkeypatch.setattr(sys, "path", [str(site)])
    assert find_torch() == root


def test_none(tmp_path: Path, site: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    (site / "a.pth").write_text("/nowhere\nimport nothing\n", encoding="utf-8")
    assert find_torch([str(site), str(tmp_path / "file"), str(tmp_path / "library.zip")]) is None


def test_a_line_in_a_pth_file(site: Path, tree: Path) -> None:
    text = f"# a comment\n\nimport sys\n{tree}\n"
    (site / "__editable__.torch-2.6.0a0.pth").write_text(text, encoding="utf-8")
    assert located(site) == TorchLocation(tree / "torch", site, editable=True)
    assert imported("torch", site) == tree / "torch/__init__.py"


def test_a_relative_line_in_a_pth_file(site: Path, tree: Path) -> None:
    (site / "easy-install.pth").write_text("../../../../Quelle's é\n", encoding="utf-8")
    location = located(site)
    assert location is not None
    assert location.root.samefile(tree / "torch")


def test_a_pth_file_of_a_folder_that_python_reads_none_in(tmp_path: Path, tree: Path) -> None:
    (tmp_path / "torch.pth").write_text(f"{tree}\n", encoding="utf-8")
    assert located(tmp_path) is None


def test_a_line_is_after_its_folder(site: Path, tree: Path) -> None:
    root = install(site)
    (site / "easy-install.pth").write_text(f"{tree}\n", encoding="utf-8")
    assert located(site) == TorchLocation(root, site, editable=False)
    assert imported("torch", site) == root / "__init__.py"


def test_a_line_that_python_has_put_on_the_path(site: Path, tree: Path) -> None:
    (site / "easy-install.pth").write_text(f"{tree}\n", encoding="utf-8")
    assert located(site, tree) == TorchLocation(tree / "torch", site, editable=True)


class TestSetuptoolsFinder:
    """`pip install --editable` with setuptools; the finder is of its own making."""

    @pytest.fixture
    def finder(self, site: Path, tree: Path) -> str:
        name = "__editable___torch_2_6_0a0_finder"
        command = pytest.importorskip("setuptools.command.editable_wheel")
        mapping = {"torchgen": str(tree / "torchgen"), "torch": str(tree / "torch")}
        text = command._finder_template(name, mapping, {"caffe2": [str(tree / "caffe2")]})
        (site / f"{name}.py").write_text(text, encoding="utf-8")
        (site / "__editable__.torch-2.6.0a0.pth").write_text(
            f"import {name}; {name}.install()", encoding="utf-8"
        )
        return name

    def test_its_table(self, site: Path, tree: Path, finder: str) -> None:
        assert located(site) == TorchLocation(tree / "torch", site, editable=True)
        assert imported("torch", site) == tree / "torch/__init__.py"

    def test_it_comes_after_the_folders(self, site: Path, tree: Path, finder: str, tmp_path: Path) -> None:
        root = install(tmp_path / "later/site-packages")
        folders = (site, tmp_path / "later/site-packages")
        assert located(*folders) == TorchLocation(root, folders[1], editable=False)
        assert imported("torch", *folders) == root / "__init__.py"

    def test_one_that_no_pth_file_loads(self, site: Path, finder: str) -> None:
        (site / "__editable__.torch-2.6.0a0.pth").unlink()
        assert located(site) is None

    @pytest.mark.parametrize(
        "text", ["", "MAPPING = {'torchvision': '/src'}", "MAPPING = {'torch': 3}", "\xff"]
    )
    def test_one_without_torch(self, site: Path, finder: str, text: str) -> None:
        (site / f"{finder}.py").write_text(text, encoding="utf-8")
        assert located(site) is None


class TestScikitBuildCoreFinder:
    """An editable install of 2.14 in redirect mode: Python files in the source tree, what was built in the site."""

    @pytest.fixture
    def built(self, site: Path, tmp_path: Path) -> Path:
        editable = pytest.importorskip("scikit_build_core.build._editable")
        source, root = tmp_path / "Quelle's é/torch", site / "torch"
        tree = TorchTree()
        tree.write(root)
        (root / "__init__.py").unlink()
        tree.write_python(source)
        text = editable.editable_redirect(
            modules={
                "torch": str(source / "__init__.py"),
                "torchgen": str(source.parent / "torchgen/__init__.py"),
            },
            installed={"torch.version": "torch/version.py", "torch.lib.libc10": "torch/lib/libc10.so"},
            directories={"torch": [str(source), "torch"], "torch.lib": ["torch/lib"]},
            packages=["torch"],
            reload_dir=None,
            rebuild=False,
            verbose=False,
            build_options=[],
            install_options=[],
            install_dir="",
        )
        (site / "_editable_skbc_torch.py").write_text(text, encoding="utf-8")
        (site / "_editable_skbc_torch.pth").write_text(
            f"import _editable_skbc_torch\n{source.parent}\n", encoding="utf-8"
        )
        return root

    def test_what_was_built(self, site: Path, built: Path) -> None:
        assert located(site) == TorchLocation(built, site, editable=True)
        assert imported("torch.version", site) == built / "version.py"
        torch = installed_torch([str(site)])
        assert (torch.version, torch.origin) == ("2.14.1+cpu", TorchOrigin.EDITABLE)
        assert torch.include_dirs[0] == built / "include"

    def test_it_comes_before_the_folders(self, site: Path, built: Path, tmp_path: Path) -> None:
        install(tmp_path / "earlier/site-packages")
        folders = (tmp_path / "earlier/site-packages", site)
        assert located(*folders) == TorchLocation(built, site, editable=True)
        assert imported("torch.version", *folders) == built / "version.py"

    def test_a_start_file(self, site: Path, built: Path) -> None:
        """What Python 3.15 takes in place of a line of code: https://peps.python.org/pep-0829/"""
        (site / "_editable_skbc_torch.pth").unlink()
        (site / "_editable_skbc_torch.start").write_text(
            "_editable_skbc_torch:entrypoint", encoding="utf-8-sig"
        )
        assert located(site) == TorchLocation(built, site, editable=True)

    def test_an_install_tree_elsewhere(self, site: Path, built: Path, tmp_path: Path) -> None:
        elsewhere = tmp_path / "build/installed/torch"
        finder = site / "_editable_skbc_torch.py"
        text = finder.read_text(encoding="utf-8")
        changed = text.replace("'torch/version.py'", repr(str(elsewhere / "version.py")))
        assert changed != text
        finder.write_text(changed, encoding="utf-8")
        assert located(site) == TorchLocation(elsewhere, site, editable=True)


def test_leftovers(tmp_path: Path, site: Path) -> None:
    (site / "torch/lib").mkdir(parents=True)
    install(tmp_path / "good")
    assert torch_leftovers([str(site), str(tmp_path / "good"), str(tmp_path)]) == (site / "torch",)
