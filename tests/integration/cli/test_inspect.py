"""``torchwheel inspect``.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from cli.running import Run
from unit.cli.test_inspect import TAG, TORCH_VERSION, VERSION, write_wheel
from wheel_samples import CUBIN, Samples, WheelRecipe

KERNEL = """
__global__ void scale(float *x, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] *= 2.0f; }
extern "C" void launch(float *x, int n) { scale<<<1, 32>>>(x, n); }
"""


@pytest.fixture(scope="session")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library with SASS for 12.0 and PTX for 9.0."""
    program = shutil.which("nvcc")
    if program is None:
        pytest.skip("there is no nvcc on PATH")
    folder = tmp_path_factory.mktemp("kernel")
    (folder / "kernel.cu").write_text(KERNEL, encoding="utf-8")
    library = folder / "libtorch_cuda.so"
    options = ["-shared", "-cudart=none", "-Xcompiler=-fPIC"]
    options += ["-gencode=arch=compute_120,code=sm_120", "-gencode=arch=compute_90,code=compute_90"]
    command = [program, *options, str(folder / "kernel.cu"), "-o", str(library)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    return library


def test_a_label_that_the_requirements_deny(torchwheel: Run, here: Path) -> None:
    """As an sdist built with -C local-version=cpu.torch2.13 beside torch 2.14.1 gives."""
    metadata = "Metadata-Version: 2.1\nName: torch\nVersion: {version}\nRequires-Dist: torch<2.15,>=2.14\n"
    wheel = WheelRecipe(version="1.2+cpu.torch2.13", metadata=metadata).write(here)
    result = torchwheel("inspect", wheel.name)
    assert (result.status, "torch2.13" in result.out.partition("warning")[2]) == (3, True)
    right = WheelRecipe(version="1.2+cpu.torch2.14", metadata=metadata).write(here)
    assert torchwheel("inspect", right.name).status == 0


def test_of_alternatives_of_which_some_run_it_is_not_known_which_is_loaded(program: Run, here: Path) -> None:
    samples = Samples()
    path = write_wheel(
        here,
        {
            "torch/libkernels_cuda118.so": samples.library(samples.Entry(CUBIN, 80)),
            "torch/libkernels_cuda124.so": samples.library(
                samples.Entry(CUBIN, 80), samples.Entry(CUBIN, 90)
            ),
        },
    )
    result = program("inspect", path.name, "--gpu", "h100", "--json")
    (gpu,) = result.document("inspect")["inspected"][0]["gpus"]
    assert (result.status, gpu["runs"], gpu["how"]) == (3, None, "unknown")
    assert "torch/libkernels_cuda124.so runs" in gpu["reason"]
    # All of them run, or none does.
    assert program("inspect", path.name, "--gpu", "a100").status == 0
    assert program("inspect", path.name, "--gpu", "rtx5070").status == 1
    assert "not known here" in program("inspect", path.name, "--gpu", "h100").out


@pytest.mark.nvcc
def test_how_compiled_code_runs(torchwheel: Run, here: Path, kernel: Path) -> None:
    path = write_wheel(here, {"torch/lib/libtorch_cuda.so": kernel.read_bytes()})
    result = torchwheel("inspect", path, "--gpu", "rtx5070", "--gpu", "12.1", "--gpu", "b200")
    assert (result.status, result.err) == (0, "")
    parts = result.out.split("\n\n")
    assert parts[1].splitlines()[1].split("kB  ")[1] == "ptx90 sm120  torch/lib/libtorch_cuda.so"
    assert parts[2] == (
        "GPU      CAPABILITY  RUNS              BECAUSE\n"
        "rtx5070  12.0        natively          sm_120 runs on 12.0: it is machine code\n"
        "                                       for that architecture\n"
        "12.1     12.1        by minor version  sm_120 runs on 12.1: machine code runs on\n"
        "                                       later minor revisions of its major\n"
        "                                       revision\n"
        "b200     10.0        by PTX JIT        compute_90 runs on 10.0: the driver\n"
        "                                       compiles its PTX at first use\n"
    )
    assert torchwheel("inspect", path, "--gpu", "rtx5070", "--gpu", "t4").status == 1


@pytest.mark.nvcc
def test_a_document(torchwheel: Run, here: Path, kernel: Path) -> None:
    path = write_wheel(here, {"torch/lib/libtorch_cuda.so": kernel.read_bytes()})
    result = torchwheel("inspect", path, "--gpu", "rtx5070", "--json")
    (one,) = result.document("inspect")["inspected"]
    (library,) = one.pop("libraries")
    assert one == {
        "path": str(path),
        "kind": "wheel",
        "name": "torch",
        "version": VERSION,
        "tags": [TAG],
        "torch": {"version": VERSION, "cuda": "13.0", "git_version": "0123456789abcdef", "debug": False},
        "remarks": [],
        "gpus": [
            {
                "name": "rtx5070",
                "compute_capability": "12.0",
                "how": "native",
                "runs": True,
                "except": [],
                "reason": "sm_120 runs on 12.0: it is machine code for that architecture",
                "libraries": [
                    {
                        "path": "torch/lib/libtorch_cuda.so",
                        "how": "native",
                        "image": "sm_120",
                        "reason": "sm_120 runs on 12.0: it is machine code for that architecture",
                        "used_by": None,
                    }
                ],
            }
        ],
        "manifest": None,
    }
    assert (library["path"], library["size"]) == ("torch/lib/libtorch_cuda.so", kernel.stat().st_size)
    images = [(one["label"], one["kind"], one["relocatable"], one["count"]) for one in library["images"]]
    assert images == [("ptx90", "ptx", False, 1), ("sm120", "sass", False, 1)]


@pytest.mark.nvcc
def test_a_library_and_an_installed_torch(
    torchwheel: Run, here: Path, kernel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = here / "site-packages" / "torch"
    (folder / "lib").mkdir(parents=True)
    shutil.copy(kernel, folder / "lib" / "libtorch_cuda.so.2.14")
    (folder / "lib" / "readme.txt").write_text("no library", encoding="utf-8")
    (folder / "version.py").write_text(TORCH_VERSION, encoding="utf-8")
    document = torchwheel("inspect", kernel, folder, "--json").document("inspect")
    library, package = document["inspected"]
    assert (library["kind"], library["name"], library["torch"]) == ("library", None, None)
    assert [one["path"] for one in library["libraries"]] == ["libtorch_cuda.so"]
    assert (package["kind"], package["torch"]["version"]) == ("package", VERSION)
    assert [one["path"] for one in package["libraries"]] == ["lib/libtorch_cuda.so.2.14"]
    assert package["libraries"][0]["images"] == library["libraries"][0]["images"]
    monkeypatch.setenv("COLUMNS", "1000")
    text = torchwheel("inspect", kernel).out
    assert text.startswith(f"library  {kernel}\n\nSIZE ")


@pytest.mark.nvcc
def test_input_of_the_device_linker_stands_in_brackets(torchwheel: Run, tmp_path: Path, kernel: Path) -> None:
    program = shutil.which("nvcc")
    assert program
    target = tmp_path / "kernel.o"
    source = kernel.with_name("kernel.cu")
    command = [program, "-rdc=true", "-arch=sm_90", "-c", str(source), "-o", str(target)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    result = torchwheel("inspect", target, "--gpu", "h100")
    assert result.status == 1
    assert "(ptx90) (sm90)" in result.out
    assert "\n\n(In brackets: relocatable code, not loadable directly.)\n\n" in result.out
