"""What a program wants compiled while it runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Arguments:
    """What is compiled.

    Attributes:
        sources: absolute paths, or relative to the folder of the project.
        texts: file name -> source text, where there are no files.
    """

    name: str
    sources: tuple[str, ...]
    texts: tuple[tuple[str, str], ...]
    cflags: tuple[str, ...]
    cuda_cflags: tuple[str, ...]
    ldflags: tuple[str, ...]
    include_dirs: tuple[str, ...]
    with_cuda: bool
    build_directory: str | None
    unsupported: str
