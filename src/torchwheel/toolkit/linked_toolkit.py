"""A folder of links in NVIDIA's usual layout, for a toolkit with headers below ``targets`` only or with an unsafe path.

conda has ``PREFIX/bin/nvcc`` and ``PREFIX/targets/x86_64-linux/include``, while ``PREFIX/include`` belongs to the whole
environment; PyTorch's FindCUDA looks for ``include`` and ``lib64`` in the toolkit's own folder. Tools may also misread
a character of a path. The links do not change nvcc, which finds itself in the real folder.

Source: https://github.com/conda-forge/cuda-nvcc-feedstock/tree/main/recipe
"""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path, PureWindowsPath

from torchwheel.host.this import odd_characters
from torchwheel.reporting.errors import refusal
from torchwheel.system.files import short_digest
from torchwheel.system.paths import is_dir
from torchwheel.toolkit.cuda_toolkit import Toolkit, path_of
from torchwheel.toolkit.pypi import toolkits_folder

_AS_THEY_ARE = ("bin", "nvvm", "targets")


def linked_toolkit(toolkit: Toolkit, cache: Path) -> Toolkit:
    """Return the toolkit for builds: the same, or with a folder of links in its place."""
    root = path_of(toolkit.root)
    usual = not toolkit.include_dirs or root / "include" in map(path_of, toolkit.include_dirs)
    if isinstance(root, PureWindowsPath) or (usual and not odd_characters(root)):
        return toolkit
    folder = toolkits_folder(cache) / f"links-{short_digest(map('='.join, _links_of(toolkit).items()))}"
    return replace(
        toolkit,
        root=str(folder),
        nvcc=toolkit.nvcc and str(folder / "bin" / path_of(toolkit.nvcc).name),
        library_dir=toolkit.library_dir and str(folder / "lib64"),
    )


def make_linked_toolkit(toolkit: Toolkit, cache: Path) -> None:
    """Create a toolkit's folder of links, if it needs one and there is none."""
    linked = linked_toolkit(toolkit, cache)
    folder = Path(linked.root)
    # The toolkit is usable as it is.
    if linked is toolkit or is_dir(folder):
        return
    # Two builds may do this at once without a lock: each fills its own folder, and the first rename wins.
    part = folder.with_name(f"{folder.name}.{os.getpid()}")
    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        for name, target in _links_of(toolkit).items():
            (part / name).symlink_to(target)
        part.rename(folder)
    except OSError as error:
        shutil.rmtree(part, ignore_errors=True)
        # Another build may have created it meanwhile.
        if not is_dir(folder):
            raise refusal("toolkit-not-assembled", folder=folder, reason=error.strerror or error) from error


def _links_of(toolkit: Toolkit) -> dict[str, str]:
    root, libraries = path_of(toolkit.root), toolkit.library_dir
    links = {name: str(root / name) for name in _AS_THEY_ARE} | {"include": toolkit.include_dirs[0]}
    return links | (dict.fromkeys(("lib", "lib64"), libraries) if libraries else {})
