"""Fake CUDA toolkits, laid out as the real ones are."""

from __future__ import annotations

import json
from pathlib import Path

from put import put


def header(number: int) -> str:
    return f"/* a licence */\n#ifndef __cuda_cuda_h__\n#define CUDA_VERSION {number}\n#endif\n"


def linux_installation(root: Path, version: str = "12.9", nvcc: str = "12.9.86") -> Path:
    """As the runfile installer makes it: include and lib64 are links into targets."""
    target = root / "targets/x86_64-linux"
    major, minor = version.split(".")
    put(target / "include/cuda.h", header(int(major) * 1000 + int(minor) * 10))
    put(target / "lib/libcudart.so.12")
    (root / "include").symlink_to("targets/x86_64-linux/include")
    (root / "lib64").symlink_to("targets/x86_64-linux/lib")
    put(root / "bin/nvcc", "compiler")
    parts = {"cuda": {"name": "CUDA SDK", "version": f"{version}.1"}, "cuda_nvcc": {"version": nvcc}}
    put(root / "version.json", json.dumps(parts))
    return root


def conda_installation(root: Path) -> Path:
    """As conda lays it out on Linux: headers and libraries below targets alone, include is of the environment."""
    target = root / "targets/x86_64-linux"
    put(target / "include/cuda.h", header(13000))
    put(target / "lib/libcudart.so")
    put(root / "bin/nvcc", "compiler")
    put(root / "nvvm/bin/cicc", "compiler")
    put(root / "include/zlib.h")
    return root


def small(root: Path, number: int = 12040) -> Path:
    """The least that is a toolkit with a compiler."""
    put(root / "bin/nvcc", "compiler").chmod(0o755)
    put(root / "include/cuda.h", header(number))
    return root
