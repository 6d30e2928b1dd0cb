"""``cpp_extension.py`` and its neighbors as released PyTorches have them: a few of a wheel's bytes, from the index."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
import urllib.request
import zipfile
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest

from extension import torch_trees
from extension.torch_trees import TorchTree
from places import REPOSITORY

# Ignored by git, and not copied by .ci/run.
_CACHE = REPOSITORY / ".torch" / "files"
_BLOCK = 1 << 18
_FILES = (
    "torch/_appdirs.py", "torch/_filelock.py", "torch/torch_version.py", "torch/utils/_cpp_extension_versioner.py",
    "torch/utils/cpp_extension.py", "torch/utils/file_baton.py",
)  # fmt: skip
_FOLDERS = ("torch/_vendor/", "torch/utils/hipify/")
USUAL = "2.14.1"
"""The release whose file the PyTorches in little have, where a test names none."""


class _Remote(io.RawIOBase):
    """A file on a server, of which ranges are read."""

    def __init__(self, address: str) -> None:
        self._address, self._at = address, 0
        self._blocks: dict[int, bytes] = {}
        with urllib.request.urlopen(urllib.request.Request(address, method="HEAD"), timeout=60) as answer:
            self._size = int(answer.headers["Content-Length"])

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def _block(self, number: int) -> bytes:
        if number not in self._blocks:
            first = number * _BLOCK
            asked = {"Range": f"bytes={first}-{min(first + _BLOCK, self._size) - 1}"}
            with urllib.request.urlopen(
                urllib.request.Request(self._address, headers=asked), timeout=60
            ) as one:
                self._blocks[number] = one.read()
        return self._blocks[number]

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        number, start = divmod(self._at, _BLOCK)
        part = self._block(number)[start : start + len(buffer)] if self._at < self._size else b""
        buffer[: len(part)] = part
        self._at += len(part)
        return len(part)


def _address_of(release: str) -> str:
    """Where pip would download the wheel from."""
    words = ["install", "--dry-run", "--quiet", "--no-deps", "--ignore-installed", "--only-binary=:all:"]
    words += ["--report", "-", f"torch=={release}"]
    done = subprocess.run([sys.executable, "-m", "pip", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"no torch {release} from a package registry: {done.stderr[-300:]}")
    return str(json.loads(done.stdout)["install"][0]["download_info"]["url"])


def torch_files(release: str = USUAL) -> Path:
    """The folder with a release's files, ``torch/utils/cpp_extension.py`` among them; fetched once."""
    folder = _CACHE / release
    if folder.is_dir():
        return folder
    part = folder.with_name(f"{release}.{id(folder)}.part")
    try:
        address = _address_of(release)
        # A mirror of the index may be a folder.
        local = address.startswith("file:")
        file = Path(url2pathname(urlsplit(address).path)).open("rb") if local else _Remote(address)  # noqa: SIM115
        with io.BufferedReader(file) as stream, zipfile.ZipFile(stream) as wheel:  # type: ignore[type-var]
            for name in wheel.namelist():
                if name in _FILES or (name.startswith(_FOLDERS) and name.endswith(".py")):
                    wheel.extract(name, part)
        part.rename(folder)
    except OSError as failure:
        if not folder.is_dir():
            pytest.skip(f"torch {release} cannot be fetched: {failure}")
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return folder


def add_torch_files(root: Path, release: str = USUAL) -> None:
    """Add the files of a release to a PyTorch in little; links, of which a test must write into none."""
    for file in torch_files(release).rglob("*.py"):
        place = root / file.relative_to(torch_files(release) / "torch")
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.exists():
            place.symlink_to(file)


def install(site_packages: Path, tree: TorchTree | None = None, metadata: str | None = None) -> Path:
    """A PyTorch in little with the usual release's files; the package's folder."""
    root = torch_trees.install(site_packages, tree, metadata)
    add_torch_files(root)
    return root
