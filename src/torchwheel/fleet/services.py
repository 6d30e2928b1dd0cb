"""What CI services offer, and the images that jobs run in: ``services.toml``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from torchwheel._toml import shipped_toml
from torchwheel.host.model import Compiler

_FILE = Path(__file__).with_name("services.toml")


@dataclass(frozen=True)
class Service:
    """A CI service, or a plain shell.

    Attributes:
        format: its name as ``--format`` has it.
        title: its name for people.
        build: minutes that a build gets, so that what it compiled is kept before the job ends; 0 for all.
        cache: gigabytes that a repository's caches may take together; 0 for no such bound.
        jobs: how many jobs one run may have; 0 for no such bound.
        limits: the limits of its machines, in words.
        systems: how the platform tags begin that its commands are for.
        platforms: platform tag -> the machine: a label, a tag or a machine type.
        images: whether a job chooses the image that it runs in.
        sources: the documents.
    """

    format: str
    title: str
    build: int
    cache: int
    jobs: int
    limits: str
    systems: tuple[str, ...]
    platforms: Mapping[str, str]
    images: bool
    sources: tuple[str, ...]


@dataclass(frozen=True)
class Image:
    """An image for jobs on Linux.

    Attributes:
        name: as Docker knows it.
        gcc: the GCC of its package build-essential.
        glibc: its C library.
    """

    name: str
    gcc: str
    glibc: str

    @property
    def compilers(self) -> tuple[Compiler, ...]:
        """Its compilers of C and C++."""
        return (
            Compiler("c", "gcc", "/usr/bin/cc", self.gcc, identity=self.name),
            Compiler("cxx", "gcc", "/usr/bin/c++", self.gcc, identity=self.name),
        )


@cache
def services() -> Mapping[str, Service]:
    """The services by their formats' names."""
    rows = shipped_toml(_FILE)["service"]
    lists = ("systems", "sources")
    return {row["format"]: Service(**{**row, **{name: tuple(row[name]) for name in lists}}) for row in rows}


def images(cuda: str = "", *, cudnn: bool = False) -> Iterator[Image]:
    """The images with a CUDA release, the oldest C library first; without a release, those without CUDA.

    Args:
        cuda: the release, ``"13.0"``.
        cudnn: whether cuDNN is to be in it.
    """
    data = shipped_toml(_FILE)
    for base in data["base"]:
        facts = base["gcc"], base["glibc"]
        if not cuda:
            yield Image(base["image"], *facts)
        for row in data["cuda"]:
            if row["version"] == cuda and base["os"] in row["os"]:
                variant = f"{row['cudnn']}-devel" if cudnn else "devel"
                yield Image(f"nvidia/cuda:{row['tag']}-{variant}-{base['os']}", *facts)
