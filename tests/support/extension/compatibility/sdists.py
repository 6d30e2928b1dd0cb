"""Sdists from PyPI: download, unpack, and change their imports to torchwheel."""

from __future__ import annotations

import os
import re
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from answered import answered

# pip runs a setup.py for its metadata even to download an sdist, and some setup.py files stop there.
_METADATA_ONLY = '''\
"""Metadata from an sdist's own PKG-INFO."""

import os
import shutil


def get_requires_for_build_wheel(config_settings=None):
    return []


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    with open("PKG-INFO", encoding="utf-8") as file:
        fields = dict(line.split(": ", 1) for line in file.read().partition("\\n\\n")[0].splitlines() if ": " in line)
    name = f"{fields['Name'].replace('-', '_')}-{fields['Version']}.dist-info"
    os.mkdir(os.path.join(metadata_directory, name))
    shutil.copy("PKG-INFO", os.path.join(metadata_directory, name, "METADATA"))
    return name


class _Legacy:
    get_requires_for_build_wheel = staticmethod(get_requires_for_build_wheel)
    prepare_metadata_for_build_wheel = staticmethod(prepare_metadata_for_build_wheel)


__legacy__ = _Legacy
'''
_MODULE = re.compile(r"\btorch\.utils\.cpp_extension\b")
_FROM_UTILS = re.compile(r"\bfrom torch\.utils import cpp_extension(?: as (?P<name>\w+))?\s*$", re.MULTILINE)
_FUTURE = re.compile(r"^from __future__ import .*\n", re.MULTILINE)


CHOSEN = "TEST_TORCHWHEEL_COMPATIBILITY"
"""The variable that names the sdists to try, or says ``all``."""


def skip_unless_chosen(name: str) -> None:
    """Skip a test of an sdist that nobody asks for: it takes a network, and often minutes."""
    chosen = os.environ.get(CHOSEN, "")
    if chosen != "all" and name not in chosen.split(","):
        pytest.skip(f"{CHOSEN} does not name it")


def download(
    requirement: str, python: str, folder: Path, environment: Mapping[str, str], sha256: str = ""
) -> Path:
    """Download the sdist of a requirement such as ``torchsort==0.1.10``; nothing in it is run."""
    backend = folder / "backend" / "setuptools"
    backend.mkdir(parents=True, exist_ok=True)
    (backend / "__init__.py").write_text("", "utf-8")
    (backend / "build_meta.py").write_text(_METADATA_ONLY, "utf-8")
    requirements = folder / "requirements.txt"
    requirements.write_text(requirement + (f" --hash=sha256:{sha256}" if sha256 else "") + "\n", "utf-8")
    command = [python, "-m", "pip", "download", "--no-deps", "--no-build-isolation", "--no-binary=:all:"]
    command += ["--use-pep517", f"--requirement={requirements}", f"--dest={folder / 'sdist'}"]
    command += ["--require-hashes"] if sha256 else []
    done = answered(command, env={**environment, "PYTHONPATH": str(backend.parent)})
    assert done.returncode == 0, f"{done.stdout[-5000:]}\n{done.stderr[-5000:]}"
    (sdist,) = (folder / "sdist").iterdir()
    return sdist


def unpack(sdist: Path, folder: Path) -> Path:
    """Unpack an sdist; the project's folder."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (source,) = folder.iterdir()
    return source


def change_imports(source: Path) -> list[str]:
    """Have every Python file import torchwheel in place of torch.utils.cpp_extension; the changed files."""
    changed = []
    for path in sorted(source.rglob("*.py")):
        text = path.read_text("utf-8", errors="surrogateescape")
        if (new := changed_imports(text)) != text:
            path.write_text(new, "utf-8", errors="surrogateescape")
            changed.append(os.fspath(path.relative_to(source)))
    return changed


def changed_imports(text: str) -> str:
    """Python's text with torchwheel in place of torch.utils.cpp_extension."""
    new = _FROM_UTILS.sub(lambda match: f"import torchwheel as {match['name'] or 'cpp_extension'}", text)
    new = _MODULE.sub("torchwheel", new)
    if not re.search(r"\btorchwheel\.\w", new) or re.search(r"^\s*import torchwheel$", new, re.MULTILINE):
        return new
    # An attribute of torch needs no import of its own.
    future = _FUTURE.search(new)
    place = future.end() if future else 0
    return f"{new[:place]}import torchwheel\n{new[place:]}"
