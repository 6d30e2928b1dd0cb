"""The container images for jobs on Linux: ``images.toml``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from torchwheel.host.machine import Compiler
from torchwheel.system.toml import shipped_toml

_FILE = Path(__file__).with_name("images.toml")


@dataclass(frozen=True)
class ContainerImage:
    """An image for jobs on Linux."""

    name: str
    gcc: str
    glibc: str

    @property
    def compilers(self) -> tuple[Compiler, ...]:
        """Its C and C++ compilers."""
        return (
            Compiler("c", "gcc", "/usr/bin/cc", self.gcc, identity=self.name),
            Compiler("cxx", "gcc", "/usr/bin/c++", self.gcc, identity=self.name),
        )


def find_images(cuda: str = "", *, cudnn: bool = False) -> Iterator[ContainerImage]:
    """The images with a CUDA release, the oldest C library first; without a release, those without CUDA."""
    data = shipped_toml(_FILE)
    for base in data["base"]:
        facts = base["gcc"], base["glibc"]
        if not cuda:
            yield ContainerImage(base["image"], *facts)
        for row in data["cuda"]:
            if row["version"] == cuda and base["os"] in row["os"]:
                variant = f"{row['cudnn']}-devel" if cudnn else "devel"
                yield ContainerImage(f"nvidia/cuda:{row['tag']}-{variant}-{base['os']}", *facts)
