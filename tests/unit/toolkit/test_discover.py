"""Where toolkits are looked for, in which order, and that each is found once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from put import put
from refusals import origins_of
from toolkit.trees import header, small
from torchwheel.host.machine import described_host
from torchwheel.host.programs import NoAnswer
from torchwheel.settings import load_settings
from torchwheel.toolkit.cuda_toolkit import Toolkit, toolkit_at
from torchwheel.toolkit.discover import discover_toolkits, find_candidates, nvcc_version

posix = pytest.mark.skipif(os.name != "posix", reason="the usual places of Linux")


def found(environment: dict[str, str], root: Path) -> list[tuple[str, str, str]]:
    toolkits = discover_toolkits(environment, system_root=root)
    return [(toolkit.root, toolkit.version, toolkit.origin) for toolkit in toolkits]


def test_nothing_is_found_where_nothing_is(tmp_path: Path) -> None:
    assert found({}, tmp_path) == []
    assert found({"CUDA_HOME": str(tmp_path), "PATH": os.pathsep, "CUDACXX": "nvcc"}, tmp_path) == []


def test_variables_in_their_order(tmp_path: Path) -> None:
    names = ["CUDA_HOME", "CUDA_PATH", "CUDA_TOOLKIT_ROOT_DIR", "CUDAToolkit_ROOT", "CUDA_BIN_PATH"]
    roots = [small(tmp_path / name, 12000 + 10 * index) for index, name in enumerate(names)]
    environment = {name: str(root) for name, root in zip(names, roots, strict=True)}
    environment["CUDACXX"] = str(small(tmp_path / "cudacxx", 13000) / "bin/nvcc")
    environment["PATH"] = str(small(tmp_path / "path", 12080) / "bin")
    assert found(environment, tmp_path / "system") == [
        (str(roots[0]), "12.0", "CUDA_HOME"),
        (str(roots[1]), "12.1", "CUDA_PATH"),
        (str(roots[2]), "12.2", "CUDA_TOOLKIT_ROOT_DIR"),
        (str(roots[3]), "12.3", "CUDAToolkit_ROOT"),
        (str(roots[4]), "12.4", "CUDA_BIN_PATH"),
        (str(tmp_path / "cudacxx"), "13.0", "CUDACXX"),
        (str(tmp_path / "path"), "12.8", "nvcc on PATH"),
    ]


@posix
def test_one_toolkit_reached_in_many_ways_is_found_once(tmp_path: Path) -> None:
    root = small(tmp_path / "usr/local/cuda-13.0", 13000)
    (tmp_path / "usr/local/cuda").symlink_to("cuda-13.0")
    environment = {"CUDA_PATH": str(tmp_path / "usr/local/cuda"), "PATH": str(root / "bin")}
    assert found(environment, tmp_path) == [(str(tmp_path / "usr/local/cuda"), "13.0", "CUDA_PATH")]
    assert found({}, tmp_path) == [(str(root), "13.0", str(tmp_path / "usr/local/cuda"))]


@posix
def test_usual_places_the_chosen_one_first_and_then_the_newest(tmp_path: Path) -> None:
    local = tmp_path / "usr/local"
    for name, number in (("cuda-12.9", 12090), ("cuda-12.10", 12100), ("cuda-11.8", 11080)):
        small(local / name, number)
    (local / "cuda").symlink_to("cuda-11.8")
    small(tmp_path / "opt/cuda", 13000)
    small(tmp_path / "usr", 12040)
    assert found({}, tmp_path) == [
        (str(local / "cuda-11.8"), "11.8", str(local / "cuda")),
        (str(local / "cuda-12.10"), "12.10", str(local / "cuda-12.10")),
        (str(local / "cuda-12.9"), "12.9", str(local / "cuda-12.9")),
        (str(tmp_path / "opt/cuda"), "13.0", str(tmp_path / "opt/cuda")),
        (str(tmp_path / "usr"), "12.4", str(tmp_path / "usr")),
    ]


@posix
@pytest.mark.parametrize("place", ["opt/cuda-13.0", "usr/lib/cuda", "opt/cuda", "usr"])
def test_every_usual_place_is_looked_in(tmp_path: Path, place: str) -> None:
    small(tmp_path / place, 13000)
    assert found({}, tmp_path) == [(str(tmp_path / place), "13.0", str(tmp_path / place))]


def test_on_a_described_machine_the_folder_s_name_says_the_version(tmp_path: Path) -> None:
    host = described_host("win_amd64")

    def named(path: str) -> Toolkit | None:
        settings = load_settings(None, {"target": "h100", "cuda-path": path}, {}, host, tmp_path)
        return find_candidates(settings, host, {}, tmp_path, [], ()).named

    toolkit = named("D:\\CUDA\\v12.9")
    assert toolkit is not None
    assert (toolkit.version, toolkit.nvcc) == ("12.9", "D:\\CUDA\\v12.9\\bin\\nvcc.exe")
    assert origins_of(named, "D:\\CUDA") == [("unknown-toolkit-version", "-C cuda-path")]


@posix
def test_a_wrapper_script_on_path_is_no_toolkit_but_a_link_leads_to_one(tmp_path: Path) -> None:
    root = small(tmp_path / "elsewhere/cuda", 12090)
    wrapper = put(tmp_path / "wrapped/bin/nvcc", f'#!/bin/sh\nexec {root}/bin/nvcc "$@"\n')
    linked = tmp_path / "linked/bin"
    linked.mkdir(parents=True)
    (linked / "nvcc").symlink_to(root / "bin/nvcc")
    path = os.pathsep.join([str(wrapper.parent), str(linked)])
    assert found({"PATH": path}, tmp_path / "system") == [(str(root), "12.9", "nvcc on PATH")]


def test_windows_installations(tmp_path: Path) -> None:
    place = tmp_path / "Program Files/NVIDIA GPU Computing Toolkit/CUDA"
    for version, number in (("v12.8", 12080), ("v12.9", 12090), ("v13.0", 13000)):
        put(place / version / "bin/nvcc.exe")
        put(place / version / "include/cuda.h", header(number))
    environment = {
        "CUDA_PATH": str(place / "v12.8"),
        "CUDA_PATH_V12_8": str(place / "v12.8"),
        "CUDA_PATH_V12_9": str(place / "v12.9"),
        "ProgramFiles": str(tmp_path / "Program Files"),
    }
    assert found(environment, tmp_path / "system") == [
        (str(place / "v12.8"), "12.8", "CUDA_PATH"),
        (str(place / "v12.9"), "12.9", "CUDA_PATH_V12_9"),
        (str(place / "v13.0"), "13.0", str(place)),
    ]


@posix
def test_a_toolkit_without_a_compiler_is_left_out(tmp_path: Path) -> None:
    small(tmp_path / "usr/local/cuda-13.0", 13000)
    put(tmp_path / "usr/local/cuda-12.9/include/cuda.h", header(12090))
    assert [version for _, version, _ in found({}, tmp_path)] == ["13.0"]


@posix
def test_nvcc_is_asked_only_by_name(tmp_path: Path) -> None:
    root = small(tmp_path / "cuda", 13000)
    ran = tmp_path / "ran"
    nvcc = put(root / "bin/nvcc", f"#!/bin/sh\ntouch '{ran}'\necho 'release 13.0, V13.0.88'\n")
    nvcc.chmod(0o755)
    (toolkit,) = discover_toolkits({"CUDA_HOME": str(root)}, system_root=tmp_path / "system")
    assert not ran.exists()
    assert nvcc_version(toolkit.nvcc or "") == "13.0.88"
    assert ran.exists()


@posix
def test_a_compiler_that_does_not_answer(tmp_path: Path) -> None:
    nvcc = toolkit_at(small(tmp_path / "cuda", 13000)).nvcc
    assert nvcc is not None
    with pytest.raises(NoAnswer):
        nvcc_version(nvcc)
