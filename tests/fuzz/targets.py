"""What reads untrusted input, as functions of bytes: each returns, or raises a TorchwheelError.

``python -m fuzz NAME SECONDS`` runs one under atheris, which changes the input where that reaches new code;
``make fuzz`` runs all. The tests run every target over its corpus and over what the corpus becomes by small changes.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

from torchwheel.diagnosis.scanner import diagnose
from torchwheel.index.catalogue import parse_catalogue
from torchwheel.preflight.host_file import read_host_file
from torchwheel.proof.stable_abi import unstable_names
from torchwheel.reporting.errors import TorchwheelError
from torchwheel.system.toml import parse_toml
from torchwheel.tree.cmake_options import parse_commands
from torchwheel.tree.source_tree import read_build_system
from torchwheel.wheel.contents import parse_torch_version, read_library
from torchwheel.wheel.inspection import inspect
from torchwheel.wheel.metadata import parse_metadata_text
from torchwheel.wheel.objfile import read_linkage
from wheel_samples import CUBIN, PTX, Entry, Samples


def _wheel(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "torch-2.14.1-cp311-cp311-linux_x86_64.whl")
        path.write_bytes(data)
        inspect(path)


def _library(data: bytes) -> None:
    read_library("library", io.BytesIO(data))
    read_linkage(io.BytesIO(data), "library")


def _tree(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "pyproject.toml").write_bytes(data)
        read_build_system(Path(folder))


def _host(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "host.toml").write_bytes(data)
        read_host_file(Path(folder, "host.toml"))


def _text(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    parse_torch_version(data, "version.py")
    parse_metadata_text(data)
    list(unstable_names(text))
    list(parse_commands(text))


TARGETS: dict[str, Callable[[bytes], None]] = {
    "wheel": _wheel,
    "library": _library,
    "log": lambda data: void(diagnose([data])),
    "toml": lambda data: void(parse_toml(data.decode("utf-8", "replace"), "a.toml")),
    "tree": _tree,
    "host": _host,
    "text": _text,
    "site": lambda data: void(parse_catalogue(data, "wheels.json")),
}


def seeds(name: str) -> list[bytes]:
    """What changes start from: the corpus, and what is made here because no wheels and libraries are kept in git."""
    files = sorted(Path(__file__).with_name("corpus").glob(f"{name}/*"))
    code = Samples.fat_binary(Entry(CUBIN, 90), Entry(PTX, 120))
    library = Samples.elf({".nv_fatbin": code})
    made = {"wheel": [_small_wheel(library)], "library": [library, Samples.pe({".nv_fatb": code}), code]}
    return [*(file.read_bytes() for file in files), *made.get(name, [])]


def _small_wheel(library: bytes) -> bytes:
    info = "torch-2.14.1.dist-info"
    members = {
        "torch/lib/libtorch_cuda.so": library,
        "torch/version.py": b"__version__ = '2.14.1+cu130.sm90'\ncuda = '13.0'\n",
        f"{info}/METADATA": b"Metadata-Version: 2.4\nName: torch\nVersion: 2.14.1+cu130.sm90\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nTag: cp311-cp311-linux_x86_64\n",
        f"{info}/RECORD": b"torch/version.py,,\n",
        f"{info}/torchwheel.json": b'{"schema": 1, "torchwheel": "0.1.0", "plan": {"target": [], "profile": []},'
        b' "machine_code": [], "wheel": {"name": "torch", "version": "2.14.1+cu130.sm90", "tags": []}}',
    }
    stream = io.BytesIO()
    with ZipFile(stream, "w") as archive:
        for path, content in members.items():
            archive.writestr(path, content)
    return stream.getvalue()


def void(_: object) -> None:
    """Nothing."""


def run(name: str, data: bytes) -> None:
    """Run a target; whatever it raises but a TorchwheelError is a finding."""
    try:
        TARGETS[name](data)
    except TorchwheelError as error:
        error.render()
