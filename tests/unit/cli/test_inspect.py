"""``torchwheel inspect``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from wheel.wheelfile import WheelFile

from cli.running import Run
from wheel_samples import CUBIN, Samples

VERSION = "2.14.1+cu130.sm120"
TAG = "cp311-cp311-linux_x86_64"
NAME = f"torch-{VERSION}-{TAG}.whl"

TORCH_VERSION = f"""\
__version__ = '{VERSION}'
debug = False
cuda = '13.0'
git_version = '0123456789abcdef'
"""

MANIFEST = {
    "schema": 1,
    "torchwheel": "0.1.0",
    "wheel": {"name": "torch", "version": VERSION, "tags": [TAG]},
    "machine_code": [],
    "plan": {
        "target": ["rtx5070"],
        "profile": ["minimal"],
        "source": {"commit": "0123456789abcdef", "dirty": True},
        "options": {"requested": {}, "effective": {}, "switched_off": ["USE_MPI", "USE_NUMA"]},
    },
}


def write_wheel(folder: Path, files: dict[str, bytes]) -> Path:
    """A wheel of PyTorch's shape with these files besides."""
    path = folder / NAME
    dist_info = f"torch-{VERSION}.dist-info"
    with WheelFile(path, "w") as archive:
        for name, data in {
            "torch/__init__.py": b"",
            "torch/version.py": TORCH_VERSION.encode(),
            f"{dist_info}/METADATA": f"Metadata-Version: 2.1\nName: torch\nVersion: {VERSION}\n".encode(),
            f"{dist_info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {TAG}\n".encode(),
            **files,
        }.items():
            archive.writestr(name, data)
    return path


def test_a_wheel_without_device_code(program: Run, here: Path) -> None:
    manifest = json.dumps(MANIFEST).encode()
    path = write_wheel(
        here,
        {
            "torch/lib/libc10.so": bytes(12_345),
            "torch/_C.pyd": bytes(999),
            f"torch-{VERSION}.dist-info/torchwheel.json": manifest,
        },
    )
    result = program("inspect", path.name)
    assert (result.status, result.err) == (3, "")
    assert result.out == (
        f"wheel      {NAME}\n"
        "name       torch\n"
        f"version    {VERSION}\n"
        f"tags       {TAG}\n"
        f"torch      {VERSION}\n"
        "CUDA       13.0\n"
        "commit     0123456789abcdef\n"
        "source     changed since that commit\n"
        "built for  rtx5070, profile minimal\n"
        "without    USE_MPI, USE_NUMA (switched off by CMake)\n"
        "warning    the version's label says cu130, sm120, which is not what is in the\n"
        "           wheel\n"
        "built by   torchwheel 0.1.0\n"
        "\n"
        "SIZE     DEVICE CODE  LIBRARY\n"
        "999 B    none         torch/_C.pyd\n"
        "12.3 kB  none         torch/lib/libc10.so\n"
    )
    result = program("inspect", path.name, "--gpu", "rtx5070")
    assert result.status == 1
    assert result.out.endswith(
        "\nGPU      CAPABILITY  RUNS  BECAUSE\nrtx5070  12.0        no    there is no device code for 12.0\n"
    )


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ({"commit": "0123456789abcdef", "dirty": False}, ""),
        ({"commit": "0123456789abcdef"}, ""),
        ({"commit": None, "dirty": None}, ""),
        (
            {"commit": "0123456789abcdef", "dirty": None},
            "source     an sdist of that commit; whether it was changed is not known\n",
        ),
    ],
)
def test_of_an_unpacked_sdist_no_more_is_said_than_is_known(
    program: Run, tmp_path: Path, source: dict[str, object], said: str
) -> None:
    document = {**MANIFEST, "plan": {**MANIFEST["plan"], "source": source}}
    path = write_wheel(
        tmp_path, {f"torch-{VERSION}.dist-info/torchwheel.json": json.dumps(document).encode()}
    )
    lines = program("inspect", str(path)).out.splitlines(keepends=True)
    assert "".join(line for line in lines if line.startswith("source")) == said


def test_a_library_that_serves_one_thing_is_told_as_an_exception(program: Run, here: Path) -> None:
    samples = Samples()
    path = write_wheel(
        here,
        {
            "torch/lib/libtorch_cuda.so": samples.library(samples.Entry(CUBIN, 75), samples.Entry(CUBIN, 80)),
            "torch/lib/libtorch_cuda_linalg.so": samples.library(samples.Entry(CUBIN, 80)),
        },
    )
    result = program("inspect", path.name, "--gpu", "t4", "--gpu", "a100")
    assert (result.status, result.err) == (0, "")
    assert result.out.split("\n\n")[2] == (
        "GPU   CAPABILITY  RUNS\n"
        "    BECAUSE\n"
        "t4    7.5         natively, without torch.linalg where it uses MAGMA\n"
        "    torch/lib/libtorch_cuda.so: sm_75 runs on 7.5: it is machine code for that\n"
        "    architecture; torch/lib/libtorch_cuda_linalg.so: sm_80 does not run on 7.5:\n"
        "    machine code is bound to its major revision\n"
        "a100  8.0         natively\n"
        "    torch/lib/libtorch_cuda.so: sm_80 runs on 8.0: it is machine code for that\n"
        "    architecture\n"
    )


def test_a_wheel_for_machines_without_the_gpu_does_not_run_there(torchwheel: Run, here: Path) -> None:
    samples = Samples()
    path = write_wheel(here, {"torch/_C.so": samples.library(samples.Entry(CUBIN, 120))})
    for platform, status in {"manylinux_2_28_x86_64": 1, "win_amd64.linux_aarch64": 0, "any": 0}.items():
        path = path.rename(here / NAME.replace("linux_x86_64", platform))
        assert torchwheel("inspect", path.name, "--gpu", "gb10").status == status


@pytest.mark.usefixtures("wide")
def test_what_cannot_be_inspected_is_told_after_what_can(torchwheel: Run, here: Path) -> None:
    write_wheel(here, {})
    (here / "notes.txt").write_text("text", encoding="utf-8")
    result = torchwheel("inspect", "notes.txt", NAME, ".", "nosuch.whl")
    assert result.status == 2
    assert result.out.startswith(f"wheel    {NAME}\nname     torch\n")
    assert [result.err.count(one) for one in ("[nothing-to-inspect]", "nosuch.whl")] == [2, 1]


def test_an_unknown_gpu_stops_before_anything_is_read(torchwheel: Run) -> None:
    result = torchwheel("inspect", "nosuch.whl", "--gpu", "rtx5071")
    assert (result.status, result.out) == (2, "")
    assert "[unknown-gpu]" in result.err
