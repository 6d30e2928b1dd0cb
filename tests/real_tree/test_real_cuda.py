"""The real PyTorch 2.6.0 sources and a real CUDA 12.4: planned, checked, configured and partly compiled for an H100."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from debian_root import SYSTEM, TREE, listed_code, prepare_cuda
from test_real_tree import ASKED, ENVIRONMENT, LAUNCHERS, OUTSIDE, PROJECT, assert_taken, cached

from torchwheel.wheel.contents import read_library

pytestmark = [pytest.mark.real_tree, pytest.mark.timeout(1500)]

FOLDER = OUTSIDE.parent / "a cuda test"
CONFIG = ["-C", "target=h100", "-C", "disable=cudnn"]
# What PyTorch 2.6.0's own builds use, where pip installs it.
CUDNN, CUDNN_FOLDER = "nvidia-cudnn-cu12==9.1.0.70", "/opt/cudnn/nvidia/cudnn"
WITH_CUDNN = ["-C", "target=h100", "-C", "enable=cudnn", "-C", f"define.CUDNN_ROOT={CUDNN_FOLDER}"]
HOST_COMPILER = ["-C", "env.CUDAHOSTCXX=/usr/bin/g++-13"]
CUDA_VARIABLES = {
    "CMAKE_CUDA_COMPILER": "/usr/bin/nvcc",
    "CUDAToolkit_ROOT": "/usr",
    "CUDA_TOOLKIT_ROOT_DIR": "/usr",
    "TORCH_CUDA_ARCH_LIST": "9.0",
    "USE_CUDA": "ON",
}
# One with a kernel of its own, one that goes through TensorIterator's templates; both light.
SOURCES = ("aten/src/ATen/cuda/Sleep.cu", "aten/src/ATen/native/cuda/AbsKernel.cu")


def asked() -> dict[str, str]:
    """The options for ``cpu`` of the other test, and what another target changes in them."""
    others = {name: value for name, value in ASKED.items() if name not in ("USE_MPS", "USE_XPU")}
    return {**others, **CUDA_VARIABLES, "CUDNN_ROOT": CUDNN_FOLDER, "USE_CUDNN": "ON"}


@pytest.fixture(scope="module")
def folder(torchwheel: str) -> Path:
    del torchwheel
    prepare_cuda()
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    text = PROJECT.format(source=TREE).replace('target = "cpu"\n', "")
    (FOLDER / "pyproject.toml").write_text(text, encoding="utf-8")
    return FOLDER


def run(torchwheel: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return SYSTEM.attempt([torchwheel, *arguments], folder=SYSTEM.inside(folder), environment=ENVIRONMENT)


def test_doctor_finds_what_nvcc_refuses_and_what_helps(torchwheel: str, folder: Path) -> None:
    done = run(torchwheel, folder, "doctor", "--json", *CONFIG)
    assert done.returncode == 2, done.stdout
    findings = json.loads(done.stdout)["findings"]
    # The project skips the other one, which is about a package that nothing here imports.
    errors = [
        finding
        for finding in findings
        if finding["severity"] == "error" and finding["id"] != "build-packages-missing"
    ]
    assert [error["id"] for error in errors] == ["host-compiler-refused-by-cuda"]
    assert errors[0]["remedy"].startswith("-C env.CUDAHOSTCXX=/usr/bin/g++-13")

    done = run(torchwheel, folder, "doctor", "--json", *CONFIG, *HOST_COMPILER)
    findings = json.loads(done.stdout)["findings"]
    assert [f["id"] for f in findings if f["severity"] == "error"] in ([], ["build-packages-missing"])


def test_configured_and_partly_compiled_for_one_architecture(torchwheel: str, folder: Path) -> None:
    """With cuDNN of PyPI's package, which a link makes one that can be linked."""
    library = SYSTEM.outside(f"{CUDNN_FOLDER}/lib/libcudnn.so")
    if not library.with_name("libcudnn.so.9").exists():
        SYSTEM.unpack(SYSTEM.outside("/opt/cudnn"), "--no-deps", CUDNN)
    library.unlink(missing_ok=True)
    done = run(torchwheel, folder, "doctor", "--json", *WITH_CUDNN, *HOST_COMPILER)
    (missing,) = (
        one for one in json.loads(done.stdout)["findings"] if one["id"] == "requested-cudnn-missing"
    )
    assert missing["remedy"].startswith("make that a link to libcudnn.so.* beside it")
    library.symlink_to("libcudnn.so.9")

    done = run(torchwheel, folder, "plan", "--json", *WITH_CUDNN, *HOST_COMPILER)
    planned: dict[str, Any] = json.loads(done.stdout)
    label = "cu124.sm90.minimal.blasgeneric.systemlibraries"
    assert planned["wheel"] == f"torch-2.6.0+{label}-cp313-cp313-linux_x86_64.whl"
    assert {define["name"]: define["value"] for define in planned["defines"]} == {**asked(), **LAUNCHERS}

    done = run(torchwheel, folder, "build", "--configure-only", *WITH_CUDNN, *HOST_COMPILER)
    assert done.returncode == 0, done.stdout
    assert f"proved       all {len({**asked(), **LAUNCHERS})} options" in done.stdout
    build = SYSTEM.outside(planned["folders"]["build"])
    cache = cached(build / "CMakeCache.txt")
    assert_taken(asked(), cache)
    assert cache["CUDNN_LIBRARY_PATH"] == f"{CUDNN_FOLDER}/lib/libcudnn.so"
    assert "-ccbin=/usr/bin/g++-13" in (build / "CMakeFiles/rules.ninja").read_text(encoding="utf-8")

    objects = [f"caffe2/CMakeFiles/torch_cuda.dir/__/{source}.o" for source in SOURCES]
    SYSTEM.enter(["ninja", "-C", planned["folders"]["build"], "c10_cuda", *objects], environment=ENVIRONMENT)
    assert (build / "lib" / "libc10_cuda.so").is_file()
    for name in objects:
        assert {image.label for image in read_library("library", build / name).images} == {"sm90"}
        assert listed_code(build / name) == {("sm_90", "cubin")}
