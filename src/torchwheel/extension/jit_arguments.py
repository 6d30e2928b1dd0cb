"""The arguments of an extension that is compiled at run time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Arguments:
    """The extension to compile.

    Attributes:
        sources: absolute paths, or relative to the folder of the project.
        left_out_flags: flags of all CUDA sources that these are compiled without.
        texts: file name -> source text, for sources without files.
    """

    name: str
    sources: tuple[str, ...]
    texts: tuple[tuple[str, str], ...]
    cflags: tuple[str, ...]
    cuda_cflags: tuple[str, ...]
    left_out_flags: tuple[str, ...]
    ldflags: tuple[str, ...]
    include_dirs: tuple[str, ...]
    with_cuda: bool
    build_directory: str | None
    unsupported: str
