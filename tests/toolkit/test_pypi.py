"""A toolkit made of packages."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
import threading
from pathlib import Path

import pytest

from toolkit.site_packages import ALL, VERSIONS, site_packages
from torchwheel.errors import TorchwheelError
from torchwheel.toolkit import pypi
from torchwheel.toolkit.model import PackagedToolkit
from torchwheel.toolkit.pypi import assemble_toolkit, is_assembled, packaged_toolkit
from torchwheel.toolkit.read import toolkit_at

linux = pytest.mark.skipif(sys.platform != "linux", reason="the layout of Linux")


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    return site_packages(tmp_path / "Pakete é" / "site-packages")


@linux
def test_the_tree_has_what_nvcc_cmake_and_pytorch_look_for(packages: Path, tmp_path: Path) -> None:
    toolkit = assemble_toolkit(packages, tmp_path / "ein Cache")
    root = Path(toolkit.root)
    assert root.parent == tmp_path / "ein Cache" / "toolkits"
    assert root.name.startswith("cuda-13.0-")
    assert (toolkit.version, toolkit.full_version) == ("13.0", "13.0.88")
    assert toolkit.nvcc == str(root / "bin" / "nvcc")
    assert toolkit.include_dirs == (str(root / "include"),)
    assert toolkit.library_dir == str(root / "lib64")
    assert toolkit.origin == f"packages in {packages}"
    assert {path.name for path in root.iterdir()} == {
        "bin",
        "include",
        "lib",
        "lib64",
        "nvvm",
        "version.json",
    }
    assert {path.name for path in (root / "lib64").iterdir()} == {
        "cmake", "stubs", "libcudart.so", "libcudart.so.13", "libcudart_static.a", "libcudadevrt.a",
        "libnvvm.so", "libnvvm.so.4", "libcupti.so", "libcupti.so.13", "libcheckpoint.so",
        "libnvrtc.so", "libnvrtc.so.13", "libnvrtc.alt.so", "libnvrtc.alt.so.13",
        "libnvrtc-builtins.so", "libnvrtc-builtins.so.13.0",
    }  # fmt: skip
    assert os.readlink(root / "lib" / "libcudart.so") == "libcudart.so.13"
    assert (root / "lib64/libcudart.so").read_text(encoding="utf-8") == "runtime"
    assert os.access(root / "bin" / "nvcc", os.X_OK)
    for file in ("include/cccl/cub/cub.cuh", "nvvm/libdevice/libdevice.10.bc", "bin/nvcc.profile"):
        assert (root / file).is_file()
    assert b"cuMemAlloc_v2\0" in (root / "lib64/stubs/libcuda.so").read_bytes()


@linux
def test_other_code_reads_the_same_toolkit_off_its_files(packages: Path, tmp_path: Path) -> None:
    toolkit = assemble_toolkit(packages, tmp_path / "cache")
    read = toolkit_at(toolkit.root)
    assert (read.version, read.full_version, read.nvcc) == ("13.0", "13.0.88", toolkit.nvcc)
    assert (read.include_dirs, read.library_dir) == (toolkit.include_dirs, toolkit.library_dir)
    content = json.loads(Path(toolkit.root, "version.json").read_text(encoding="utf-8"))
    assert content["packages"]["nvidia-nvjitlink"] == "13.5.37"


def test_the_tree_outlives_the_environment_and_has_the_same_place_for_another(tmp_path: Path) -> None:
    first = assemble_toolkit(site_packages(tmp_path / "first"), tmp_path / "cache")
    shutil.rmtree(tmp_path / "first")
    assert Path(first.include_dirs[0], "cuda_runtime.h").is_file()
    assert Path(first.root, "bin", "ptxas").read_text(encoding="utf-8") == "assembler"
    second = assemble_toolkit(site_packages(tmp_path / "second"), tmp_path / "cache")
    assert (second.root, second.identity) == (first.root, first.identity)
    newer = VERSIONS | {"nvidia-cublas": "13.1.1.4"}
    other = assemble_toolkit(site_packages(tmp_path / "third", versions=newer), tmp_path / "cache")
    assert other.root != first.root
    assert is_assembled(Path(first.root))


def test_the_place_is_known_before_the_tree_is_made(packages: Path, tmp_path: Path) -> None:
    planned = packaged_toolkit(packages, tmp_path / "cache", ALL)
    assert not (tmp_path / "cache").exists()
    assert planned == PackagedToolkit(assemble_toolkit(packages, tmp_path / "cache"), packages)


def test_packages_that_do_not_make_a_toolkit_are_none(tmp_path: Path) -> None:
    folder = site_packages(tmp_path / "few", ALL - {"nvidia-nvtx"})
    assert packaged_toolkit(folder, tmp_path, ALL) is None
    assert packaged_toolkit(folder, tmp_path, {"nvidia-cuda-nvcc"}) is not None
    assert packaged_toolkit(tmp_path / "none", tmp_path, ()) is None


@linux
def test_files_are_hard_links_and_copies_where_these_cannot_be(
    packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvcc = packages / "nvidia/cu13/bin/nvcc"
    linked = Path(assemble_toolkit(packages, tmp_path / "same").root, "bin", "nvcc")
    assert linked.samefile(nvcc)

    def refuse(*_: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(pypi.os, "link", refuse)
    copied = Path(assemble_toolkit(packages, tmp_path / "elsewhere").root, "bin", "nvcc")
    assert not copied.samefile(nvcc)
    assert copied.read_text(encoding="utf-8") == "compiler"
    assert copied.stat().st_mtime_ns == nvcc.stat().st_mtime_ns
    assert os.access(copied, os.X_OK)


def test_what_a_killed_process_left_is_not_used(packages: Path, tmp_path: Path) -> None:
    planned = packaged_toolkit(packages, tmp_path / "cache", ALL)
    assert planned is not None
    root = Path(planned.toolkit.root)
    for left in (root, root.with_name(root.name + ".part")):
        (left / "bin").mkdir(parents=True)
        (left / "bin" / "half").write_text("x", encoding="utf-8")
    assert not is_assembled(root)
    assemble_toolkit(packages, tmp_path / "cache")
    assert is_assembled(root)
    assert not (root / "bin" / "half").exists()
    assert sorted(path.name for path in root.parent.iterdir()) == [root.name, f"{root.name}.lock"]


def test_many_at_once_make_one(packages: Path, tmp_path: Path) -> None:
    roots: list[str] = []
    start = threading.Barrier(6)

    def build() -> None:
        start.wait()
        roots.append(assemble_toolkit(packages, tmp_path / "cache").root)

    threads = [threading.Thread(target=build) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(roots) == 6
    assert len(set(roots)) == 1
    assert is_assembled(Path(roots[0]))


def test_no_nvcc_among_the_packages(tmp_path: Path) -> None:
    folder = site_packages(tmp_path / "runtime", ALL - {"nvidia-cuda-nvcc"})
    with pytest.raises(TorchwheelError) as caught:
        assemble_toolkit(folder, tmp_path / "cache")
    assert str(caught.value) == (
        f"there is no nvcc among the packages in {folder}  [no-nvcc-in-packages]\n"
        "    why: nvidia-cuda-nvcc of CUDA 13 or later brings it, in nvidia/cu13/bin\n"
        "    fix: pip install 'cuda-toolkit[nvcc]==13.0.*' there, of the release that you need; CUDA 12 has no nvcc on "
        "PyPI: install NVIDIA's toolkit"
    )
    assert not (tmp_path / "cache").exists()


def test_packages_of_two_releases_are_refused(tmp_path: Path) -> None:
    folder = site_packages(tmp_path / "mixed", versions=VERSIONS | {"nvidia-cuda-crt": "13.1.115"})
    with pytest.raises(TorchwheelError) as caught:
        assemble_toolkit(folder, tmp_path / "cache")
    assert str(caught.value) == (
        f"the CUDA packages in {folder} are of several releases: nvidia-cuda-crt 13.1.115, nvidia-cuda-nvcc 13.0.88, "
        "nvidia-cuda-runtime 13.0.96, nvidia-nvvm 13.0.88  [toolkit-packages-mixed]\n"
        "    why: nvcc, its headers and the runtime's must be of one release\n"
        "    fix: install them together, by the extras of one cuda-toolkit: pip install 'cuda-toolkit[nvcc]==13.0.*'"
    )


def test_a_cache_that_cannot_be_written(packages: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file", encoding="utf-8")
    with pytest.raises(TorchwheelError) as caught:
        assemble_toolkit(packages, tmp_path / "cache")
    (problem,) = caught.value.problems
    assert problem.id == "toolkit-not-assembled"
    assert problem.remedy == "make room there, or name another cache folder with TORCHWHEEL_CACHE_DIR"
