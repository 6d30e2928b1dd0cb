"""Reading toolkits, libraries and trees from the disk."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from backend.builds import make_tree
from preflight.contexts import context, tree
from put import put_all
from torchwheel.host.machine import Host
from torchwheel.plan.build_plan import Plan
from torchwheel.plan.make import make_plan
from torchwheel.preflight.effort import disk_estimate
from torchwheel.preflight.facts import NOT_INSTALLED, Installed, read_toolkit_facts
from torchwheel.preflight.this_machine import ask_together, find_libraries, find_obstacle, read_facts
from torchwheel.preflight.tree_facts import read_tree_facts
from torchwheel.progress.build_record import Build, BuildRecord, TimedStep, write_build_record
from torchwheel.survey import BuildRequest, survey
from torchwheel.toolkit.cuda_toolkit import Toolkit, toolkit_at
from torchwheel.toolkit.host_compiler import HostCompilerLimits

HOST_CONFIG = """\
#if defined(__GNUC__)
#if __GNUC__ > 14
#error -- unsupported GNU version!
#endif
#if (__clang_major__ >= 20) || (__clang_major__ < 3)
#error -- unsupported clang version!
#endif
#if _MSC_VER < 1910 || _MSC_VER >= 1950
#error -- unsupported Microsoft Visual Studio version!
#endif
"""


@pytest.fixture
def installed(tmp_path: Path) -> Toolkit:
    root = tmp_path / "cuda ü"
    files = {
        "bin/nvcc": "",
        "include/cuda.h": "#define CUDA_VERSION 12080\n",
        "include/cuda_runtime.h": "",
        "include/cuda_runtime_api.h": "",
        "include/crt/host_config.h": HOST_CONFIG,
        "include/cublas_v2.h": "",
        "include/cufft.h": "",
        "lib64/libcudart.so": "",
        "lib64/libcublas_static.a": "",
    }
    put_all(root, files)
    return toolkit_at(root)


def test_toolkit(installed: Toolkit) -> None:
    facts = read_toolkit_facts(installed)
    assert facts.limits == HostCompilerLimits(gcc_max=14, clang_max=19, msvc_range=(1910, 1949))
    assert facts.missing == ("cufft", "curand", "cusolver", "cusparse", "nvrtc", "cupti")


def test_toolkit_without_host_config(installed: Toolkit) -> None:
    (Path(installed.include_dirs[0]) / "crt" / "host_config.h").unlink()
    facts = read_toolkit_facts(installed)
    assert facts.limits is None
    assert "nvcc's headers" in facts.missing


def here() -> Host:
    return context(platform="win_amd64", compiler=None).host.host


def test_libraries_by_their_headers(installed: Toolkit, tmp_path: Path) -> None:
    root = tmp_path / "nccl"
    header = root / "include" / "nccl.h"
    put_all(root, {"include/nccl.h": "#define NCCL_MAJOR 2\n#define NCCL_MINOR 27\n#define NCCL_PATCH 3\n"})
    cudnn = Path(installed.include_dirs[0]) / "cudnn_version.h"
    cudnn.write_text(
        "#define CUDNN_MAJOR 9\n#define CUDNN_MINOR 10\n#define CUDNN_PATCHLEVEL 2\n", encoding="utf-8"
    )
    found = find_libraries({"NCCL_ROOT": str(root)}, (installed,), here())
    assert found == {
        "cudnn": Installed("9.10.2", str(cudnn)),
        "nccl": Installed("2.27.3", str(header)),
        "cutlass": NOT_INSTALLED,
        "nvshmem": NOT_INSTALLED,
    }
    names = ("cudnn", "nccl", "cutlass", "nvshmem")
    assert find_libraries({}, (), here()) == dict.fromkeys(names, NOT_INSTALLED)


def test_nvshmem_is_named_or_a_package_or_installed(tmp_path: Path) -> None:
    """In the order in which PyTorch's CMake looks."""
    header = tmp_path / "nvshmem" / "include" / "non_abi" / "nvshmem_version.h"
    macros = enumerate(("MAJOR", "MINOR", "PATCH"), 3)
    text = "".join(f"#define NVSHMEM_VENDOR_{macro}_VERSION {n}\n" for n, macro in macros)
    put_all(header.parent, {header.name: text})
    (tmp_path / "site" / "nvidia_nvshmem_cu12-3.2.5.dist-info").mkdir(parents=True)
    site, named = [tmp_path / "site"], {"NVSHMEM_HOME": str(tmp_path / "nvshmem")}
    found = find_libraries(named, (), here(), site)["nvshmem"]
    assert found == Installed("3.4.5", str(header))
    packaged = Installed("3.2.5", str(tmp_path / "site" / "nvidia" / "nvshmem"))
    assert find_libraries({}, (), here(), site)["nvshmem"] == packaged


@pytest.mark.parametrize(
    ("text", "version"), [("NVSHMEM_VERSION=3.4.5\n", "3.4.5"), ("NVSHMEM_VERSION=$1\n", ""), ("", "")]
)
def test_the_nvshmem_of_the_trees_own_images(tmp_path: Path, text: str, version: str) -> None:
    made = context().plan
    put_all(tmp_path, {".ci/docker/common/install_cuda.sh": f"#!/bin/bash\n{text}"})
    assert read_tree_facts(replace(made, tree=replace(made.tree, root=tmp_path))).nvshmem == version


@pytest.mark.parametrize(("name", "header"), [("cudnn", "cudnn_version.h"), ("nccl", "nccl.h")])
def test_a_library_with_versioned_names_alone_is_not_installed(
    name: str, header: str, tmp_path: Path
) -> None:
    """PyPI's nvidia-cudnn-cu13 has libcudnn.so.9 alone, nvidia-nccl-cu13 libnccl.so.2: no linker looks for these."""
    macros = ("MAJOR", "MINOR", "PATCH", "PATCHLEVEL")
    text = "".join(f"#define {name.upper()}_{macro} 1\n" for macro in macros)
    library = tmp_path / "lib" / f"lib{name}.so"
    library.parent.mkdir()
    library.with_name(f"{library.name}.1").touch()
    put_all(tmp_path / "include", {header: text})
    root = {f"{name.upper()}_ROOT": str(tmp_path)}

    assert find_libraries(root, (), here())[name] == Installed("", str(library))
    there = Installed("1.1.1", str(tmp_path / "include" / header))
    assert find_libraries({**root, f"{name.upper()}_LIBRARY": "/elsewhere"}, (), here())[name] == there
    library.touch()
    assert find_libraries(root, (), here())[name] == there


@pytest.mark.parametrize("key", ["env.CUDNN_ROOT", "env.CUDNN_INCLUDE_DIR", "define.CUDNN_ROOT"])
def test_a_library_is_found_where_the_settings_name_it(key: str, tmp_path: Path) -> None:
    """It is what the remedy of a missing one says to do."""
    header = tmp_path / "include" / "cudnn_version.h"
    macros = ("MAJOR", "MINOR", "PATCHLEVEL")
    put_all(header.parent, {header.name: "".join(f"#define CUDNN_{macro} 9\n" for macro in macros)})
    folder = tmp_path if key.endswith("ROOT") else header.parent
    facts = read_facts({}, context({key: str(folder)}).plan)
    assert facts.libraries["cudnn"] == Installed("9.9.9", str(header))


def test_cutlass_is_where_compilers_look(tmp_path: Path) -> None:
    header = tmp_path / "include" / "cutlass" / "version.h"
    text = "#define CUTLASS_MAJOR 3\n#define CUTLASS_MINOR 5\n#define CUTLASS_PATCH 1\n"
    put_all(header.parent, {header.name: text})
    named = {"CPATH": f"{os.pathsep}{tmp_path / 'include'}"}
    assert find_libraries(named, (), here())["cutlass"] == Installed("3.5.1", str(header))
    assert find_libraries({"CUTLASS_ROOT": str(tmp_path)}, (), here())["cutlass"] == NOT_INSTALLED


def test_tree(tmp_path: Path) -> None:
    made = context({"disable": "distributed"})
    root = tmp_path / "pytorch ü"
    sizes = {"aten/a.cpp": 100, "torch/csrc/b.cc": 50, "torch/c.cu": 30, "torch/d.py": 1000}
    put_all(root, {name: "x" * size for name, size in sizes.items()})
    plan = replace(made.plan, tree=replace(made.plan.tree, root=root))
    facts = read_tree_facts(plan)
    assert (facts.cxx_bytes, facts.cuda_bytes) == (150, 30)
    put_all(root / "aten/src/ATen/native/cuda", {"Abs.cu": "#include <c10/core/Scalar.h>\n"})
    assert read_tree_facts(plan).needs_cutlass == ""
    put_all(root / "aten/src/ATen/native/cuda", {"Mixed.cu": "#include <cutlass/cutlass.h>\n"})
    assert read_tree_facts(plan).needs_cutlass == "aten/src/ATen/native/cuda/Mixed.cu"
    put_all(root, {"third_party/cutlass/include/cutlass/cutlass.h": ""})
    assert read_tree_facts(plan).needs_cutlass == ""


def test_the_nccl_of_the_toolkit_s_version(tmp_path: Path) -> None:
    """PyTorch picks its tag by DESIRED_CUDA, which the plan sets to the toolkit's, before 2.9 by the major version."""
    plan = context({"enable": "system-nccl"}, source=tree("2.14.1", root=tmp_path)).plan
    desired = next(variable.value for variable in plan.variables if variable.name == "DESIRED_CUDA")
    assert read_tree_facts(plan).nccl == ""
    for name, tag in (
        ("", "v1.0.0-1"),
        ("-cu12", "v1.2.0-1"),
        ("-cu" + desired.replace(".", ""), "v1.3.0-1"),
    ):
        put_all(tmp_path, {f".ci/docker/ci_commit_pins/nccl{name}.txt": f"{tag}\n"})
        assert read_tree_facts(plan).nccl == tag[1:6]


def test_estimate_grows_with_what_is_asked_for() -> None:
    plain = disk_estimate(26_000_000, 2_800_000, 0, debug=False)
    one = disk_estimate(26_000_000, 2_800_000, 1, debug=False)
    seven = disk_estimate(26_000_000, 2_800_000, 7, debug=False)
    assert seven - one == 6 * (one - plain)
    assert disk_estimate(26_000_000, 0, 0, debug=True) > 3 * plain
    # PyTorch's README asks for 10 GB.
    assert 10e9 < plain < one < seven < 20 << 30


def test_objects_that_are_there_take_no_more_of_the_disk() -> None:
    estimates = [
        disk_estimate(26_000_000, 2_800_000, 1, debug=False, built_share=share) for share in (0.0, 0.5, 1.0)
    ]
    reserve = estimates[2]
    assert reserve == 512 << 20
    assert abs(estimates[1] - reserve - (estimates[0] - reserve) / 2) <= 1


@pytest.mark.parametrize(
    ("state", "total", "share"),
    [("done", 2, 1.0), ("failed", 6, 0.4), ("running", 6, 0.4), ("failed", 1, 1.0)],
)
def test_how_much_of_a_build_is_there(
    planned: Callable[[Path], Plan], tmp_path: Path, state: str, total: int, share: float
) -> None:
    """Two steps of an earlier build and of one that ran two of its own."""
    plan = planned(make_tree("scikit-build-core", tmp_path / "tree"))
    assert read_tree_facts(plan).built_share == 0.0
    steps = tuple(TimedStep(f"{name}.o", name, 0.0, 1.0) for name in ("a", "b"))
    build = Build("torch.whl", str(plan.tree.root), "/stage", str(plan.folders.build), "/log", 2)
    finished = min(total, 3)
    record = BuildRecord(build, state, 100.0, 160.0, finished, total, left=None, steps=steps)
    plan.folders.root.mkdir(parents=True)
    write_build_record(plan.folders.record, record)
    assert read_tree_facts(plan).built_share == share


def test_questions_that_fail_or_hang_are_told() -> None:
    never = threading.Event()
    asked = {"good": lambda: 1, "bad": lambda: 1 // 0, "slow": lambda: never.wait(30)}
    assert ask_together(asked, 0.1) == (
        {"good": 1},
        {"bad": "integer division or modulo by zero", "slow": "it took longer than 0.1 seconds"},
    )
    never.set()


@pytest.mark.skipif(sys.platform != "linux", reason="names are bytes on Linux alone")
def test_files_that_no_wheel_can_hold(planned: Callable[[Path], Plan], tmp_path: Path) -> None:
    root = make_tree("scikit-build-core", tmp_path / "tree")
    (root / "torch" / "dangling.py").symlink_to("nowhere.py")
    Path(os.fsdecode(os.fsencode(root / "torch") + b"/a\xff.py")).touch()
    folder = Path(os.fsdecode(os.fsencode(root / "torch") + b"/d\xff"))
    folder.mkdir()
    (folder / "a.h").touch()
    (root / "torch" / "é.py").touch()
    (root / "torch" / "linked.py").symlink_to("__init__.py")
    (root / "docs-link").symlink_to("nowhere")
    assert read_tree_facts(planned(root)).unpackable == {
        "torch/dangling.py": "it is a link to nowhere.py, which does not exist",
        "torch/a\udcff.py": "its name is not UTF-8, as names in wheels are",
        "torch/d\udcff/a.h": "its name is not UTF-8, as names in wheels are",
    }


@pytest.fixture
def planned(tmp_path: Path) -> Callable[[Path], Plan]:
    environment = {"PATH": os.environ["PATH"], "TORCHWHEEL_CACHE_DIR": str(tmp_path / "cache")}
    return lambda tree: make_plan(survey(BuildRequest(tree, {"target": "cpu"}, environment)))


def test_a_drive_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows has no folder above all drives."""
    assert find_obstacle(tmp_path / "builds") == ""
    monkeypatch.setattr(os.path, "lexists", lambda _path: False)
    assert find_obstacle(tmp_path / "builds") == f"there is no {tmp_path.anchor}"
