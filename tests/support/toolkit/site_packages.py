"""NVIDIA's packages as pip installs them: real file names, little in them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from put import put
from toolkit.trees import header
from torchwheel.toolkit.pypi import needed_packages
from torchwheel.wheel.archive import render_record, row_for

CUDA_H = header(13000) + (
    "#define cuMemAlloc cuMemAlloc_v2\n"
    "#define cuMemcpyHtoD __CUDA_API_PTDS(cuMemcpyHtoD_v2)\n"
    "CUresult CUDAAPI cuInit(unsigned int Flags);\n"
    "CUresult CUDAAPI cuMemAlloc(CUdeviceptr *dptr, size_t bytesize);\n"
)

FILES: Mapping[str, Mapping[str, str]] = {
    "nvidia-cuda-nvcc": {
        "bin/nvcc": "compiler",
        "bin/ptxas": "assembler",
        "bin/nvcc.profile": "TOP = $(_HERE_)/..",
    },
    "nvidia-cuda-crt": {"include/crt/host_config.h": "#if __GNUC__ > 15\n#endif\n"},
    "nvidia-nvvm": {
        "nvvm/bin/cicc": "front end",
        "nvvm/libdevice/libdevice.10.bc": "bitcode",
        "lib/libnvvm.so.4": "",
    },
    "nvidia-cuda-runtime": {
        "include/cuda.h": CUDA_H,
        "include/cuda_runtime.h": "",
        "include/cuda_runtime_api.h": "",
        "lib/libcudart.so.13": "runtime",
        "lib/libcudart_static.a": "",
        "lib/libcudadevrt.a": "",
    },
    "nvidia-cuda-cccl": {"include/cccl/cub/cub.cuh": "", "lib/cmake/cub/cub-config.cmake": ""},
    "nvidia-cuda-nvrtc": {
        "include/nvrtc.h": "",
        "lib/libnvrtc.so.13": "",
        "lib/libnvrtc-builtins.so.13.0": "",
        "lib/libnvrtc.alt.so.13": "",
    },
    "nvidia-cuda-cupti": {"include/cupti.h": "", "lib/libcupti.so.13": "", "lib/libcheckpoint.so": ""},
}
"""What some of the packages have in nvidia/cu13; the others get one header each."""

VERSIONS = {
    "nvidia-cuda-nvcc": "13.0.88",
    "nvidia-cuda-crt": "13.0.88",
    "nvidia-nvvm": "13.0.88",
    "nvidia-cuda-runtime": "13.0.96",
    "nvidia-cuda-cccl": "13.0.85",
    "nvidia-nvjitlink": "13.5.37",
}
ALL = needed_packages("linux_x86_64")


def site_packages(
    folder: Path, distributions: frozenset[str] = ALL, versions: Mapping[str, str] = VERSIONS
) -> Path:
    """A folder of Python packages with these of NVIDIA's, cuDNN's beside them, and torch's own."""
    for name in sorted(distributions):
        files = FILES.get(name, {f"include/{name.removeprefix('nvidia-')}.h": ""})
        install(
            folder, name, versions.get(name, "13.0.85"), {f"nvidia/cu13/{k}": v for k, v in files.items()}
        )
    install(folder, "nvidia-cudnn-cu13", "9.24.0.43", {"nvidia/cudnn/lib/libcudnn.so.9": ""})
    put(folder / "nvidia/cu13/.metadata/provenance.txt", "VERSION:1")
    put(folder / "nvidia/cu13/bin/__pycache__/x.pyc")
    return folder


def install(folder: Path, name: str, version: str, files: Mapping[str, str]) -> None:
    """One distribution with its RECORD."""
    for path, text in files.items():
        file = put(folder / path, text)
        if "/bin/" in path and not path.endswith(".profile"):
            file.chmod(0o755)
    rows = [row_for(path, (folder / path).read_bytes()) for path in files]
    put(folder / f"{name.replace('-', '_')}-{version}.dist-info" / "RECORD", render_record(rows).decode())
