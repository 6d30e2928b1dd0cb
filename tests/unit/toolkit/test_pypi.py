"""Toolkits made of packages, and of links to another one."""

from __future__ import annotations

import errno
import json
import os
import platform
import shutil
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

import torchwheel.toolkit
from put import put
from refusals import error_of, ids_of
from toolkit.site_packages import ALL, VERSIONS, install, site_packages
from toolkit.trees import conda_installation, linux_installation
from torchwheel.host.this import odd_characters
from torchwheel.system.toml import read_toml
from torchwheel.toolkit import assemble
from torchwheel.toolkit.assemble import assemble_toolkit, is_assembled, linked_toolkit, make_linked_toolkit
from torchwheel.toolkit.cuda_toolkit import assumed_toolkit, toolkit_at
from torchwheel.toolkit.pypi import (
    PackagedToolkit,
    compiler_packages,
    installed_packages,
    needed_packages,
    nvcc_releases,
    packaged_toolkit,
    requirements_for,
)
from torchwheel.versions import read_range
from torchwheel.wheel.archive import render_record, row_for

# --- what PyPI has

DATA = read_toml(Path(torchwheel.toolkit.__path__[0], "packages.toml"))
SCHEMA = json.loads(Path(__file__).with_name("packages.schema.json").read_text(encoding="utf-8"))

EXTRAS = (
    "nvcc,crt,nvvm,cudart,cccl,cublas,cusparse,cusolver,cufft,curand,nvrtc,nvjitlink,nvtx,nvml,cupti,profiler,"
    "cufile,culibos"
)


@pytest.mark.parametrize("version", ["13.0", "13.0.88"])
def test_any_update_of_a_release_is_required_by_its_metapackage(version: str) -> None:
    assert requirements_for(version) == (f"cuda-toolkit[{EXTRAS}]==13.0.*",)


@pytest.mark.parametrize("version", ["11.7", "11.8", "12.9.86"])
def test_older_packages_have_no_nvcc(version: str) -> None:
    assert ids_of(requirements_for, version) == ["no-nvcc-on-pypi"]


def test_what_there_is_for_which_platform() -> None:
    every = ("13.0", "13.1", "13.2", "13.3", "13.4", "13.5")
    assert [nvcc_releases(tag) for tag in ("linux_x86_64", "linux_aarch64", "win_amd64")] == [every] * 3
    assert nvcc_releases("win_arm64") == ("13.4", "13.5")
    assert nvcc_releases("linux_ppc64le") == ()


def test_windows_lacks_what_is_for_linux_alone() -> None:
    linux, windows = needed_packages("linux_aarch64"), needed_packages("win_amd64")
    assert linux - windows == {"nvidia-cufile", "nvidia-cuda-culibos"}
    assert compiler_packages() <= windows


def test_the_file_is_as_its_schema_says() -> None:
    jsonschema.validate(DATA, SCHEMA)
    assert {*DATA["compiler"]["extras"], *DATA["linux-only"]["extras"]} <= DATA["distributions"].keys()


def test_packages_that_share_the_folder(tmp_path: Path) -> None:
    folder = site_packages(tmp_path / "Pakete é")
    packages = installed_packages(folder)
    assert packages is not None
    assert packages.folder == folder / "nvidia" / "cu13"
    assert packages.versions.keys() == ALL
    assert packages.versions["nvidia-nvjitlink"] == "13.5.37"
    assert (packages.compiler_version, packages.release) == ("13.0.88", "13.0")


def test_without_nvcc_they_are_a_runtime_alone(tmp_path: Path) -> None:
    assert installed_packages(tmp_path) is None
    assert installed_packages(site_packages(tmp_path / "runtime", ALL - {"nvidia-cuda-nvcc"})) is None
    old = tmp_path / "old"
    install(old, "nvidia-cuda-nvcc-cu12", "12.9.86", {"nvidia/cuda_nvcc/bin/ptxas": ""})
    assert installed_packages(old) is None


def test_a_package_that_is_only_half_installed_does_not_count(tmp_path: Path) -> None:
    folder = site_packages(tmp_path)
    (folder / "nvidia_cublas-13.0.85.dist-info" / "RECORD").unlink()
    packages = installed_packages(folder)
    assert packages is not None
    assert ALL - packages.versions.keys() == {"nvidia-cublas"}


def test_the_newest_of_several_folders(tmp_path: Path) -> None:
    folder = site_packages(tmp_path)
    install(folder, "nvidia-cuda-nvcc", "14.1.5", {"nvidia/cu14/bin/nvcc": ""})
    packages = installed_packages(folder)
    assert packages is not None
    assert (packages.folder.name, packages.release) == ("cu14", "14.1")


def test_the_identity_is_the_same_everywhere_and_changes_with_any_package(tmp_path: Path) -> None:
    def identity(name: str, **versions: str) -> str:
        changed = VERSIONS | {key.replace("_", "-"): value for key, value in versions.items()}
        packages = installed_packages(site_packages(tmp_path / name, versions=changed))
        assert packages is not None
        return packages.identity

    assert identity("one") == identity("other")
    assert identity("one") != identity("third", nvidia_cublas="13.1.1.4")
    assert len(identity("one")) == 12


def test_the_patch_release_is_the_metapackage_s(tmp_path: Path) -> None:
    folder = site_packages(tmp_path)

    def patch_release() -> str | None:
        made = packaged_toolkit(folder, tmp_path / "cache", ())
        assert made is not None
        return made.toolkit.patch_release

    assert patch_release() is None
    (folder / "cuda_toolkit-12.9.1.dist-info").mkdir()
    assert patch_release() is None
    (folder / "cuda_toolkit-12.9.1.dist-info").rename(folder / "cuda_toolkit-13.0.3.0.dist-info")
    assert patch_release() == "13.0.3"


@pytest.mark.parametrize(
    ("allowed", "updates"),
    [
        ("==13.0.*", ""),
        (">=13.0, <14", ""),
        ("==13.0.1", ",==13.0.1"),
        (">=13.0.4, <14", ",>=13.0.4,<14"),
        ("!=13.0.2", ",!=13.0.2"),
    ],
)
def test_a_range_may_exclude_updates(allowed: str, updates: str) -> None:
    assert requirements_for("13.0", read_range(allowed)) == (f"cuda-toolkit[{EXTRAS}]==13.0.*{updates}",)


# --- assembled

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
    toolkit = assemble_toolkit(packages, tmp_path / "cache")
    requirements = tuple(f"{name}=={VERSIONS.get(name, '13.0.85')}" for name in sorted(ALL))
    assert planned == PackagedToolkit(toolkit, packages, requirements)


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

    monkeypatch.setattr(assemble.os, "link", refuse)
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
        put(left / "bin" / "half", "x")
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
    assert ids_of(assemble_toolkit, folder, tmp_path / "cache") == ["no-nvcc-in-packages"]
    assert not (tmp_path / "cache").exists()


def test_packages_of_two_releases_are_refused(tmp_path: Path) -> None:
    folder = site_packages(tmp_path / "mixed", versions=VERSIONS | {"nvidia-cuda-crt": "13.1.115"})
    (problem,) = error_of(assemble_toolkit, folder, tmp_path / "cache").problems
    assert problem.id == "toolkit-packages-mixed" and "nvidia-cuda-crt 13.1.115" in problem.what


def test_a_cache_that_cannot_be_written(packages: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file", encoding="utf-8")
    (problem,) = error_of(assemble_toolkit, packages, tmp_path / "cache").problems
    assert problem.id == "toolkit-not-assembled"
    assert "TORCHWHEEL_CACHE_DIR" in problem.remedy


NVCC = "nvidia/cu13/bin/nvcc"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "ein Cache"


def test_a_file_that_is_not_what_record_says(packages: Path, cache: Path) -> None:
    (packages / NVCC).write_text("compileR", encoding="utf-8")
    assert ids_of(assemble_toolkit, packages, cache) == ["toolkit-file-changed"]
    assert [path.suffix for path in (cache / "toolkits").iterdir()] == [".lock"]
    (packages / NVCC).write_text("compiler", encoding="utf-8")
    assert Path(assemble_toolkit(packages, cache).root, "bin", "nvcc").read_text("utf-8") == "compiler"


def test_a_file_that_is_missing_or_of_which_record_has_no_hash(packages: Path, cache: Path) -> None:
    (packages / NVCC).unlink()
    assert ids_of(assemble_toolkit, packages, cache) == ["toolkit-file-changed"]
    (packages / NVCC).write_text("compiler", encoding="utf-8")
    put(packages / "nvidia_cuda_nvcc-13.0.88.dist-info" / "RECORD", f"{NVCC},,\n")
    assert ids_of(assemble_toolkit, packages, cache) == ["toolkit-file-changed"]


def test_what_no_record_names_is_not_part_of_the_toolkit(packages: Path, cache: Path) -> None:
    (packages / "nvidia/cu13/bin/stranger").write_text("x", encoding="utf-8")
    record = packages / "nvidia_cuda_nvcc-13.0.88.dist-info" / "RECORD"
    put(packages / "outside", "x")
    rows = [row_for(f"nvidia/cu13/{path}", b"x") for path in ("../../outside", ".metadata/x")]
    record.write_text(record.read_text("utf-8") + render_record(rows).decode(), encoding="utf-8")
    root = Path(assemble_toolkit(packages, cache).root)
    assert not (root / "bin" / "stranger").exists()
    assert not (root / ".metadata").exists()


def test_a_file_of_two_packages_is_there_once(packages: Path, cache: Path) -> None:
    install(packages, "nvidia-also", "1.0.0", {NVCC: "compiler"})
    assert Path(assemble_toolkit(packages, cache).root, "bin", "nvcc").read_text("utf-8") == "compiler"


def test_another_package_under_the_same_version_makes_another_toolkit(
    packages: Path, cache: Path, tmp_path: Path
) -> None:
    first = assemble_toolkit(packages, cache)
    again = assemble_toolkit(site_packages(tmp_path / "same"), cache)
    assert again == replace(first, origin=again.origin)
    header = "include/crt/host_config.h"
    install(tmp_path / "same", "nvidia-cuda-crt", "13.0.88", {f"nvidia/cu13/{header}": "other"})
    second = assemble_toolkit(tmp_path / "same", cache)
    assert second.identity != first.identity
    assert Path(second.root, header).read_text("utf-8") == "other"


pytestmark = pytest.mark.skipif(
    sys.platform == "win32" or platform.machine() != "x86_64", reason="conda's folders on Linux and x86-64"
)


def test_conda_s_layout_is_a_toolkit(tmp_path: Path) -> None:
    toolkit = toolkit_at(conda_installation(tmp_path / "my env"))
    assert (toolkit.version, Path(toolkit.include_dirs[0]).parts[-3:]) == (
        "13.0",
        ("targets", "x86_64-linux", "include"),
    )


@pytest.mark.parametrize(
    ("install", "folder"),
    [(conda_installation, "my env"), (linux_installation, "a\"#$&'(),:;<>[\\]`{|}!%*=?^b")],
)
def test_the_stand_in_has_the_usual_layout(
    install: Callable[[Path], Path], folder: str, tmp_path: Path
) -> None:
    toolkit, cache = toolkit_at(install(tmp_path / folder)), tmp_path / "cache"
    told = linked_toolkit(toolkit, cache)
    for _ in range(2):
        make_linked_toolkit(toolkit, cache)
        found = toolkit_at(told.root)
        assert Path(told.root).parent == cache / "toolkits"
        assert (found.nvcc, found.include_dirs) == (told.nvcc, (f"{told.root}/include",))
        assert Path(found.library_dir or "").resolve() == Path(toolkit.library_dir or "").resolve()
        assert [path.name for path in (cache / "toolkits").iterdir()] == [Path(told.root).name]
    assert (told.include_dirs, told.version) == (toolkit.include_dirs, toolkit.version)
    assert not odd_characters(Path(told.root))


def test_the_usual_layout_needs_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "here"
    here.mkdir()
    # A recorded Windows path is a relative one elsewhere.
    monkeypatch.chdir(here)
    for toolkit in (
        toolkit_at(linux_installation(tmp_path / "cuda")),
        assumed_toolkit("13.0", "linux_x86_64"),
        assumed_toolkit("13.0", "win_amd64"),
    ):
        assert linked_toolkit(toolkit, tmp_path / "cache") is toolkit
        make_linked_toolkit(toolkit, tmp_path / "cache")
    assert not (tmp_path / "cache").exists()
    assert list(here.iterdir()) == []


def test_a_cache_that_cannot_be_written_to(tmp_path: Path) -> None:
    toolkit, cache = toolkit_at(conda_installation(tmp_path / "env")), tmp_path / "cache"
    cache.touch()
    assert ids_of(make_linked_toolkit, toolkit, cache) == ["toolkit-not-assembled"]
