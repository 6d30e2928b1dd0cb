"""``torchwheel toolkits``: the CUDA toolkits on this machine and on PyPI."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from typing import Any

from torchwheel.hardware.architecture import Architecture
from torchwheel.reporting.terminal import (
    add_json_option,
    format_table,
    print_document,
    show,
    terminal_width,
    wrap_paragraph,
)
from torchwheel.toolkit.cuda_releases import ToolkitRelease, read_toolkits
from torchwheel.toolkit.cuda_toolkit import Toolkit
from torchwheel.toolkit.discover import discover_toolkits
from torchwheel.toolkit.read_toolkit import release_of

_NONE_HERE = "No CUDA toolkit with a compiler was found on this machine."
_FROM_PYPI = (
    "With nvcc, it is a whole toolkit: torchwheel takes it from PyPI, once, where no installed one fits, and in any "
    "case with -C cuda-from=pypi. Without nvcc, there are headers and libraries only, and nothing to compile with."
)
_NEWER = " (newer than torchwheel's table: as its nvcc says)"
_UNKNOWN_RELEASE = "not known: this release is not in the catalogue"


def populate(parser: argparse.ArgumentParser) -> None:
    add_json_option(parser)


def run(parsed: argparse.Namespace) -> int:
    """List the toolkits, best first, and the releases, newest first."""
    found = discover_toolkits(os.environ)
    releases = tuple(reversed(read_toolkits().releases))
    if parsed.json:
        print_document(
            "toolkits",
            found=[_found_document(one) for one in found],
            releases=[_release_document(one) for one in releases],
        )
        return 0
    width = terminal_width()
    parts = ["On this machine", _render_found(found, width), "", "On PyPI", _render_offered(releases, width)]
    show("\n".join([*parts, "", wrap_paragraph(_FROM_PYPI, width)]))
    return 0


def _render_found(found: Iterable[Toolkit], width: int) -> str:
    rows = [(one.full_version, one.origin, one.root, _describe_compiled(one)) for one in found]
    return (
        format_table(("VERSION", "FOUND BY", "FOLDER", "COMPILES FOR"), rows, width) if rows else _NONE_HERE
    )


def _render_offered(releases: Iterable[ToolkitRelease], width: int) -> str:
    rows = [
        (one.version, "yes" if one.pypi_nvcc else "no", _join_architectures(one.architectures))
        for one in releases
        if one.pypi
    ]
    return format_table(("VERSION", "NVCC", "COMPILES FOR"), rows, width)


def _describe_compiled(toolkit: Toolkit) -> str:
    architectures, newer = _compiled_architectures(toolkit), read_toolkits().is_newer(toolkit.version)
    return (
        f"{_join_architectures(architectures)}{_NEWER if newer else ''}"
        if architectures
        else _UNKNOWN_RELEASE
    )


def _compiled_architectures(toolkit: Toolkit) -> frozenset[Architecture]:
    release = release_of(toolkit)
    return release.architectures if release else frozenset()


def _join_architectures(architectures: Iterable[Architecture]) -> str:
    return " ".join(_dotted_architectures(architectures))


def _dotted_architectures(architectures: Iterable[Architecture]) -> list[str]:
    return [architecture.dotted for architecture in sorted(architectures)]


def _found_document(toolkit: Toolkit) -> dict[str, Any]:
    return {
        "version": toolkit.version,
        "full_version": toolkit.full_version,
        "root": toolkit.root,
        "nvcc": toolkit.nvcc,
        "origin": toolkit.origin,
        "architectures": _dotted_architectures(_compiled_architectures(toolkit)),
    }


def _release_document(release: ToolkitRelease) -> dict[str, Any]:
    return {
        "version": release.version,
        "pypi": release.pypi,
        "pypi_nvcc": release.pypi_nvcc,
        "platforms": list(release.platforms),
        "architectures": _dotted_architectures(release.architectures),
        "driver_linux": release.driver_linux,
        "driver_windows": release.driver_windows,
        "source": release.source,
    }
