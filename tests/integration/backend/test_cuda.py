"""CUDA wheels: the file name's promise, kept by the machine code; and two targets one after the other."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
from pathlib import Path

import jsonschema
import pytest

from backend.builds import (
    check,
    clean_environment,
    dist_info,
    make_tree,
    manifest,
    names_in,
    read,
    run,
    snapshot,
    version_file,
    wrapper,
)
from backend.builds import torchwheel as command
from torchwheel.toolkit.discover import discover_toolkits
from torchwheel.wheel.contents import inspect_wheel
from wheel_samples import manifest_schema

pytestmark = [
    pytest.mark.nvcc,
    pytest.mark.skipif(not discover_toolkits(os.environ), reason="needs a CUDA toolkit with nvcc"),
]

SETTINGS = {"build-env": '"current"', "disable": '["tests", "openmp", "mpi", "flash-attention"]'}


def built(project: Path, out: Path, target: str, cache: Path) -> Path:
    """The wheel that pip makes of a wrapper project for a target."""
    pip = (sys.executable, "-m", "pip", "wheel", ".", "--no-deps", "--no-build-isolation", "-w", out)
    check(*pip, "-C", f"target={target}", cwd=project, env=clean_environment(cache), timeout=500)
    (wheel,) = out.iterdir()
    return wheel


@pytest.mark.long
def test_name_metadata_version_file_and_code_agree_for_one_target_after_the_other(tmp_path: Path) -> None:
    toolkit = discover_toolkits(os.environ)[0]
    label = f"cu{toolkit.version.replace('.', '')}.sm120.noflashattention.nompi.noopenmp"
    tree = make_tree("scikit-build-core", tmp_path / "py torch é")
    before = snapshot(tree)
    project = wrapper(tmp_path / "Projekt", tree, **SETTINGS)
    cache = tmp_path / "cache"

    gpu = built(project, tmp_path / "gpu", "rtx5070", cache)
    assert gpu.name.startswith(f"torch-2.14.1+{label}-cp3")
    assert f"Version: 2.14.1+{label}\n" in read(gpu, f"{dist_info(gpu)}/METADATA").decode()
    said = version_file(gpu)
    assert (said["__version__"], said["cuda"]) == (f"2.14.1+{label}", toolkit.version)
    images = {
        library.path: {image.label for image in library.images} for library in inspect_wheel(gpu).libraries
    }
    assert {path: labels for path, labels in images.items() if labels} == {
        "torch/lib/libtorch_cuda.so": {"sm120"}
    }
    cuobjdump = shutil.which("cuobjdump", path=str(Path(toolkit.root, "bin")))
    if cuobjdump is not None:
        (tmp_path / "libtorch_cuda.so").write_bytes(read(gpu, "torch/lib/libtorch_cuda.so"))
        listed = run(
            cuobjdump, "--list-elf", "libtorch_cuda.so", cwd=tmp_path, env=clean_environment(cache)
        ).stdout
        assert {line.split(".")[-2] for line in listed.split() if line.endswith(".cubin")} == {"sm_120"}
    document = manifest(gpu)
    jsonschema.validate(document, manifest_schema())
    assert document["plan"]["toolchain"]["cuda"] == toolkit.full_version
    assert {image["label"] for code in document["machine_code"] for image in code["images"]} == {"sm120"}

    cpu = built(project, tmp_path / "cpu", "cpu", cache)
    assert cpu.name.startswith("torch-2.14.1+cpu.nompi.noopenmp-cp3")
    assert version_file(cpu)["cuda"] is None
    assert not [name for name in names_in(cpu) if "cuda" in Path(name).name and name.endswith(".so")]
    assert not [library for library in inspect_wheel(cpu).libraries if library.images]
    assert snapshot(tree) == before


@pytest.mark.skipif(platform.machine() != "x86_64", reason="conda's folder of another machine")
@pytest.mark.parametrize("generation", ["scikit-build-core", "setup.py"])
def test_a_toolkit_of_conda_s_layout_configures(generation: str, tmp_path: Path) -> None:
    installed, prefix = discover_toolkits(os.environ)[0], tmp_path / "conda env"
    target = prefix / "targets" / "x86_64-linux"
    target.mkdir(parents=True)
    (target / "include").symlink_to(installed.include_dirs[0])
    (target / "lib").symlink_to(installed.library_dir or "")
    for part in ("bin", "nvvm"):
        # Not a link: nvcc looks for the rest beside the folder that it lies in.
        shutil.copytree(Path(installed.root, part), prefix / part, copy_function=os.symlink)
    (prefix / "bin" / "nvcc").unlink()
    shutil.copy2(installed.nvcc or "", prefix / "bin" / "nvcc")
    options = ("-C", "build-env=current", "--disable", "tests,openmp,mpi,flash-attention,cudnn")
    check(
        *command(
            "build",
            "--configure-only",
            make_tree(generation, tmp_path / "tree"),
            "--target",
            "rtx5070",
            *options,
        ),
        "-C",
        f"cuda-path={prefix}",
        cwd=tmp_path,
        env=clean_environment(tmp_path / "cache"),
        timeout=300,
    )


@pytest.mark.parametrize("generation", ["scikit-build-core", "setup.py"])
def test_what_cmake_resets_for_old_gpus_and_missing_libraries_is_not_proved(
    generation: str, tmp_path: Path
) -> None:
    """With a plain set() after the option, as PyTorch does: CMake's cache has ON for both."""
    tree = make_tree(generation, tmp_path / "tree")
    configure = command(
        "build", "--configure-only", tree, "--target", "t4", "--enable", "flash-attention,cudss", "--json"
    )
    configure += ["-C", "build-env=current", "--disable", "tests,openmp,mpi,cudnn"]
    answer = run(*configure, cwd=tmp_path, env=clean_environment(tmp_path / "cache"), timeout=300)
    problems = json.loads(answer.stdout)["problems"]
    assert {problem["id"] for problem in problems} == {"cmake-took-other-value"}
    assert sorted(problem["what"].partition(" ")[0] for problem in problems) == [
        "USE_CUDSS",
        "USE_FLASH_ATTENTION",
    ]


@pytest.mark.long
def test_an_adopted_tree_that_still_holds_another_target_s_code_is_refused(tmp_path: Path) -> None:
    """In place, setup.py packs whatever lies in torch/lib; the wheel's name would be a lie."""
    tree = make_tree("setup.py", tmp_path / "tree")
    check(*command("adopt", tree), cwd=tmp_path, env=clean_environment(tmp_path / "cache"))
    options = ("-C", "build-env=current", "--disable", "tests,openmp,mpi,flash-attention")
    environment = clean_environment(tmp_path / "cache")
    gpu = command("build", tree, "--target", "rtx5070", *options, "-o", tmp_path / "gpu")
    check(*gpu, cwd=tmp_path, env=environment, timeout=500)
    cpu = command("build", tree, "--target", "cpu", *options, "-o", tmp_path / "cpu")
    answer = run(*cpu, cwd=tmp_path, env=environment)
    assert answer.returncode == 2
    assert "torch/lib/libtorch_cuda.so" in answer.stderr
    assert list(tmp_path.glob("cpu/*")) == []
