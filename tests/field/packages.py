"""A package index on this machine: what builds ask for is downloaded once, and served over HTTP to every combination.

It is a proxy too, for a host that nobody can reach otherwise.
"""

from __future__ import annotations

import html
import http.server
import io
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

from packaging.utils import canonicalize_name, parse_wheel_filename

from answered import answered
from torchwheel.system.files import short_digest
from torchwheel.toolkit.pypi import requirements_for

UNREACHABLE = "packages.example"
"""A host of the index that only a proxy reaches."""

BUNDLED_PIP = {"3.10": "22.3.1", "3.11": "22.3.1", "3.12": "23.2.1", "3.13": "24.2", "3.14": "25.2"}
"""The pip that ensurepip brought with the first release of each CPython, which is the oldest that is supported.
Source: https://github.com/python/cpython/tree/3.12/Lib/ensurepip/_bundled and the other branches."""

OLD_SETUPTOOLS = {"3.10": "65.5.1", "3.11": "65.5.1", "3.12": "68.2.2", "3.13": "68.2.2", "3.14": "68.2.2"}
"""What ensurepip brings in CPython 3.10 and 3.11, and the last one that hands --build-option to egg_info."""

# uv passes over upper bounds of Requires-Python, and takes a release for Python 3.6 that pip refuses.
_OVERRIDES = "dataclasses<0.7\n"


def fill_wheelhouse(parent: Path, lists: Iterable[Iterable[str]], pythons: Iterable[str], uv: str) -> Path:
    """The folder with the wheels that every list needs for every Python, downloaded unless they are there.

    Args:
        parent: where the folder lies, named by what is in it.
        lists: requirements that belong together.
        pythons: versions of Python.
        uv: the program.
    """
    wanted = {
        version: [
            *_join(lists),
            [f"pip=={BUNDLED_PIP[version]}"],
            [f"setuptools=={OLD_SETUPTOOLS[version]}"],
            ["pip", "build", "setuptools", "wheel"],
        ]
        for version in pythons
    }
    folder = parent / f"wheelhouse-{short_digest([str(wanted)])}"
    if (folder / "ready").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "overrides.txt").write_text(_OVERRIDES, encoding="utf-8")
    asked = [(requirements, version) for version, entries in wanted.items() for requirements in entries]
    # An index far away answers slowly, but many at a time.
    with ThreadPoolExecutor(len(asked)) as pool:
        resolved = list(pool.map(lambda one: _resolve(*one, folder, uv), asked))
        pins: dict[str, set[str]] = {version: set() for version in wanted}
        for (_requirements, version), found in zip(asked, resolved, strict=True):
            pins[version].update(found)
        list(pool.map(lambda version: _download(pins[version], version, folder), pins))
    (folder / "ready").touch()
    return folder


def download_toolkit(folder: Path, release: str) -> None:
    """Fill a folder with the packages that make a CUDA toolkit, as this machine's pip finds them: a gigabyte."""
    part = folder.with_name(f"{folder.name}.part")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "-d", part]
    subprocess.run([*pip, *requirements_for(release)], check=True)
    part.rename(folder)


def _join(lists: Iterable[Iterable[str]]) -> list[list[str]]:
    """The lists, in one where no version is bounded from above, since these cannot contradict each other."""
    entries = [sorted(set(entry)) for entry in lists]
    bounded = [entry for entry in entries if re.search("<|==", " ".join(entry))]
    return [sorted({name for entry in entries if entry not in bounded for name in entry}), *bounded]


def _download(pins: Iterable[str], version: str, folder: Path) -> None:
    """Put the wheels of pins for a Python into a folder."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    releases: dict[str, list[str]] = {}
    for pin in sorted(pins):
        releases.setdefault(pin.partition("==")[0], []).append(pin)
    # pip takes one release of each package at a time.
    with tempfile.TemporaryDirectory(dir=folder) as part:
        while batch := [pins.pop() for pins in releases.values() if pins]:
            subprocess.run([*pip, "--python-version", version, "-d", part, *batch], check=True)
        for wheel in Path(part).iterdir():
            wheel.replace(folder / wheel.name)


def _resolve(requirements: list[str], version: str, folder: Path, uv: str) -> list[str]:
    """The newest releases that meet requirements, as pins."""
    # Resolving takes no interpreter of that version; without the option, uv tries for seconds to download one.
    options = (
        "--quiet",
        "--no-python-downloads",
        "--no-header",
        "--no-annotate",
        "--only-binary",
        ":all:",
        "--python-version",
        version,
        "--override",
        folder / "overrides.txt",
    )
    answer = answered([uv, "pip", "compile", *options, "-"], input="\n".join(requirements) + "\n")
    assert answer.returncode == 0, answer.stderr
    return [line.partition(" ;")[0].strip() for line in answer.stdout.splitlines() if "==" in line]


class _Server(http.server.ThreadingHTTPServer):
    files: dict[str, dict[str, Path]]


class _Handler(http.server.BaseHTTPRequestHandler):
    """Answers for /simple/NAME/ and /files/NAME; whole addresses too, as a proxy."""

    server: _Server

    def do_GET(self) -> None:
        parts = [unquote(part) for part in urlsplit(self.path).path.strip("/").split("/")]
        names = self.server.files
        if parts[0] == "simple" and len(parts) == 2 and parts[1] in names:
            links = (
                f'<a href="/files/{html.escape(name)}">{name}</a><br>' for name in sorted(names[parts[1]])
            )
            page = "\n".join(["<!DOCTYPE html><html><body>", *links, "</body></html>"]).encode()
            self._send(io.BytesIO(page), len(page), "text/html")
        elif parts[0] == "files" and (path := self._find(parts[-1])):
            with path.open("rb") as stream:
                self._send(stream, path.stat().st_size, "application/octet-stream")
        else:
            self.send_error(404)

    do_HEAD = do_GET

    def _find(self, name: str) -> Path | None:
        return next((files[name] for files in self.server.files.values() if name in files), None)

    def _send(self, content: BinaryIO, length: int, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        if self.command == "GET":
            shutil.copyfileobj(content, self.wfile)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@contextmanager
def serve(*folders: Path) -> Iterator[str]:
    """Serve the wheels of folders while the block runs; the address of the index without its path."""
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.files = {}
        for wheel in (path for folder in folders for path in folder.glob("*.whl")):
            name = canonicalize_name(re.split(r"-", wheel.name)[0])
            parse_wheel_filename(wheel.name)
            server.files.setdefault(name, {})[wheel.name] = wheel
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
