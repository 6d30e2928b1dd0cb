"""A folder of links in NVIDIA's usual layout, for a toolkit whose headers are below ``targets`` alone.

Also for one whose path has a character in it that tools take for their own.

conda lays CUDA out so: ``PREFIX/bin/nvcc`` and ``PREFIX/targets/x86_64-linux/include``, while ``PREFIX/include`` is the
whole environment's. PyTorch's FindCUDA looks for ``include`` and ``lib64`` in the toolkit's own folder. The links do
not change nvcc, which finds itself in the real folder.

Source: https://github.com/conda-forge/cuda-nvcc-feedstock/tree/main/recipe
"""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path, PureWindowsPath

from torchwheel._files import short_digest
from torchwheel.errors import refusal
from torchwheel.host.this import odd_characters
from torchwheel.toolkit.model import Toolkit, path_of
from torchwheel.toolkit.pypi import toolkits_folder

_AS_THEY_ARE = ("bin", "nvvm", "targets")


def stand_in(toolkit: Toolkit, cache: Path) -> Toolkit:
    """Return the toolkit that builds use: the same, or with the folder of links that stands for it.

    Args:
        cache: torchwheel's cache folder.
    """
    root = path_of(toolkit.root)
    usual = not toolkit.include_dirs or root / "include" in map(path_of, toolkit.include_dirs)
    if isinstance(root, PureWindowsPath) or (usual and not odd_characters(root)):
        return toolkit
    folder = toolkits_folder(cache) / f"links-{short_digest(map('='.join, _links(toolkit).items()))}"
    return replace(
        toolkit,
        root=str(folder),
        nvcc=toolkit.nvcc and str(folder / "bin" / path_of(toolkit.nvcc).name),
        library_dir=toolkit.library_dir and str(folder / "lib64"),
    )


def make_stand_in(toolkit: Toolkit, cache: Path) -> None:
    """Make the folder that stands for a toolkit, where one does, unless it is there.

    Raises:
        TorchwheelError: it cannot be written.
    """
    linked = stand_in(toolkit, cache)
    folder = Path(linked.root)
    # Such a toolkit is used as it is.
    if linked is toolkit or folder.is_dir():
        return
    part = folder.with_name(f"{folder.name}.{os.getpid()}")
    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        for name, target in _links(toolkit).items():
            (part / name).symlink_to(target)
        part.rename(folder)
    except OSError as error:
        shutil.rmtree(part, ignore_errors=True)
        # Another build may have made it meanwhile.
        if not folder.is_dir():
            raise refusal("toolkit-not-assembled", folder=folder, reason=error.strerror or error) from error


def _links(toolkit: Toolkit) -> dict[str, str]:
    root, libraries = path_of(toolkit.root), toolkit.library_dir
    links = {name: str(root / name) for name in _AS_THEY_ARE} | {"include": toolkit.include_dirs[0]}
    return links | (dict.fromkeys(("lib", "lib64"), libraries) if libraries else {})
