"""Kernels that a tree's own script adds after the build: the commands that a build prints are run, for real."""

from __future__ import annotations

import json
import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from backend.builds import check, clean_environment, make_tree, read, run
from backend.builds import torchwheel as command
from torchwheel.toolkit.discover import discover_toolkits
from torchwheel.wheel.record import RecordRow, render_record, row_for

ID = "native-aot-kernels-missing"
LIBRARY = "torch/lib/libtorch_cuda.so"
# Of the shape of PyTorch's own script, which needs GPUs of Blackwell's generation to be of use.
SCRIPT = """
import argparse, base64, hashlib, importlib.util, os, pathlib, shutil, subprocess, sys, zipfile
from export import EXPORTABLE_ARCHES

REPO = pathlib.Path(__file__).resolve().parents[2]
BUILD = REPO / "build"
LIBRARY = "torch/lib/libtorch_cuda.so"
wheel = argparse.ArgumentParser()
wheel.add_argument("--wheel")
wheel = wheel.parse_args().wheel
if os.getenv("TORCH_NATIVE_AOT", "1") == "0":
    sys.exit("switched off")
for module in ("nvidia_cutlass_dsl", "tvm_ffi"):
    if importlib.util.find_spec(module) is None:
        sys.exit(f"{module} is not installed")
arches = ["sm_" + text.replace(".", "") for text in os.environ["TORCH_CUDA_ARCH_LIST"].split(";")]
if not set(arches) & set(EXPORTABLE_ARCHES):
    sys.exit("nothing to export")
here = pathlib.Path(__file__).parent
where = "import torch._C, pathlib; print(pathlib.Path(torch._C.__file__).parent)"
installed = pathlib.Path(subprocess.check_output([sys.executable, "-c", where], cwd=here, text=True).strip())
(BUILD / "native_aot").mkdir(exist_ok=True)
kernel = "extern \\"C\\" __global__ void native_aot_kernel(float* x) { *x = 1; }"
(BUILD / "native_aot" / "kernel.cu").write_text(kernel)
subprocess.check_call(["cmake", "--build", ".", "--target", "torch_cuda"], cwd=BUILD)
built = BUILD / "lib" / "libtorch_cuda.so"
shutil.copy2(built, installed / "lib" / "libtorch_cuda.so")
data = built.read_bytes()
digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(wheel + ".new", "w") as new:
    for member in old.infolist():
        content = data if member.filename == LIBRARY else old.read(member)
        if member.filename.endswith(".dist-info/RECORD"):
            rows = [line for line in content.decode().splitlines() if not line.startswith(LIBRARY + ",")]
            content = "\\n".join([f"{LIBRARY},sha256={digest},{len(data)}", *rows, ""])
        new.writestr(member, content)
os.replace(wheel + ".new", wheel)
"""
EMBEDDED = """
if(USE_CUDA)
  file(GLOB native_aot CONFIGURE_DEPENDS ${CMAKE_BINARY_DIR}/native_aot/*.cu)
  target_sources(torch_cuda PRIVATE ${native_aot})
endif()
"""


def native_aot_tree(folder: Path, architectures: str = '("sm_120",)') -> Path:
    tree = make_tree("scikit-build-core", folder)
    tools = tree / "tools" / "native_aot"
    tools.mkdir()
    (tools / "build_stage2.py").write_text(SCRIPT, encoding="utf-8")
    (tools / "export.py").write_text(f"EXPORTABLE_ARCHES = {architectures}\n", encoding="utf-8")
    with (tree / "aten" / "CMakeLists.txt").open("a", encoding="utf-8") as stream:
        stream.write(EMBEDDED)
    return tree


def stand_in(folder: Path, name: str, module: str) -> None:
    """A wheel of a package that is only looked for."""
    files = {
        f"{module}/__init__.py": b"",
        f"{name}-1.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n".encode(),
        f"{name}-1.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = f"{name}-1.dist-info/RECORD"
    rows = [*(row_for(path, data) for path, data in files.items()), RecordRow(record, "", "")]
    with zipfile.ZipFile(folder / f"{name}-1-py3-none-any.whl", "w") as archive:
        for path, data in (files | {record: render_record(rows)}).items():
            archive.writestr(path, data)


def findings(
    tree: Path, tmp_path: Path, *options: str, target: str = "rtx5070", **variables: str
) -> set[str]:
    environment = clean_environment(tmp_path / "cache", **variables)
    words = command("plan", tree, "--target", target, "--json", *options)
    document = json.loads(check(*words, cwd=tmp_path, env=environment))
    return {finding["id"] for finding in document["findings"]}


def test_what_the_tree_exports_for_decides(tmp_path: Path) -> None:
    tree = native_aot_tree(tmp_path / "tree", '("sm_90", "sm_100a")')
    assert ID in findings(tree, tmp_path, target="h100")
    assert ID not in findings(tree, tmp_path, target="rtx5070")
    assert ID not in findings(tree, tmp_path, target="cpu")
    (tree / "tools/native_aot/export.py").write_text("# computed elsewhere\n", encoding="utf-8")
    assert ID in findings(tree, tmp_path, target="rtx5070")
    assert ID not in findings(tree, tmp_path, target="h100")


def test_the_trees_own_switch_silences_it(tmp_path: Path) -> None:
    tree = native_aot_tree(tmp_path / "tree")
    assert ID not in findings(tree, tmp_path, TORCH_NATIVE_AOT="0")
    assert ID not in findings(tree, tmp_path, "-C", "env.NATIVE_AOT=0")
    assert ID in findings(tree, tmp_path, NATIVE_AOT="1")


@pytest.mark.long
@pytest.mark.nvcc
@pytest.mark.skipif(not discover_toolkits(os.environ), reason="needs a CUDA toolkit with nvcc")
def test_the_commands_that_a_build_prints_add_the_kernels(tmp_path: Path) -> None:
    tree = native_aot_tree(tmp_path / "py torch")
    quick = ("-Cbuild-env=current", "--disable=tests,openmp,mpi,flash-attention")
    options = (*quick, "-o", tmp_path / "dist")
    environment = clean_environment(tmp_path / "my cache")
    words = command("build", tree, "--target", "rtx5070", "--json", *options)
    built = run(*words, cwd=tmp_path, env=environment, timeout=500)
    assert built.returncode == 0, built.stderr
    assert built.stderr.count(f"[{ID}]") == 1
    document = json.loads(built.stdout)
    (finding,) = [one for one in document["findings"] if one["id"] == ID]
    wheel = Path(document["wheel"])
    assert b"native_aot_kernel" not in read(wheel, LIBRARY)

    packages = tmp_path / "packages"
    packages.mkdir()
    for name, module in (("nvidia_cutlass_dsl",) * 2, ("apache_tvm_ffi", "tvm_ffi"), ("cmake", "no_cmake")):
        stand_in(packages, name, module)
    offline = environment | {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": packages.as_uri()}
    commands = finding["remedy"].splitlines()[1:]
    assert commands[-1] == f"torchwheel inspect {wheel.name}"
    for line in commands:
        done = subprocess.run(
            ["sh", "-c", line], cwd=wheel.parent, env=offline, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (line, done.stdout, done.stderr)
    assert b"native_aot_kernel" in read(wheel, LIBRARY)
    # The stage serves the next build as before.
    check(*words[:-1], tmp_path / "again", cwd=tmp_path, env=environment, timeout=500)

    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("torch/added.py", "")
    assert run(*command("inspect", wheel), cwd=tmp_path, env=environment).returncode == 1
