"""``torchwheel toolkits``: the CUDA toolkits on this machine and on PyPI."""

from __future__ import annotations

import argparse
import os

from torchwheel.reporting.terminal import Answer, fields_of, format_table, wrap_paragraph
from torchwheel.toolkit.cuda_releases import read_toolkits
from torchwheel.toolkit.cuda_toolkit import Toolkit
from torchwheel.toolkit.discover import discover_toolkits

_NONE_HERE = "No CUDA toolkit with a compiler was found on this machine."
_FROM_PYPI = (
    "With nvcc, it is a whole toolkit: torchwheel takes it from PyPI, once, where no installed one fits, and in any "
    "case with -C cuda-from=pypi. Without nvcc, there are headers and libraries only, and nothing to compile with."
)
_UNKNOWN_RELEASE = "not known: this release is not in the catalogue"
_RELEASE = (
    "version", "pypi", "pypi_nvcc", "platforms", "architectures", "driver_linux", "driver_windows", "source",
)  # fmt: skip


def populate(parser: argparse.ArgumentParser) -> None:
    """It has no arguments of its own."""


def run(parsed: argparse.Namespace) -> Answer:
    found = discover_toolkits(os.environ)
    releases = tuple(reversed(read_toolkits().releases))
    document = {
        "found": [
            {
                **fields_of(one, "version", "full_version", "root", "nvcc", "origin"),
                "architectures": _compiled_architectures(one),
            }
            for one in found
        ],
        "releases": [fields_of(one, *_RELEASE) for one in releases],
    }
    rows = [
        (one.full_version, one.origin, one.root, " ".join(_compiled_architectures(one)) or _UNKNOWN_RELEASE)
        for one in found
    ]
    here = format_table(("VERSION", "FOUND BY", "FOLDER", "COMPILES FOR"), rows) if rows else _NONE_HERE
    offered = [
        (one.version, "yes" if one.pypi_nvcc else "no", " ".join(map(str, sorted(one.architectures))))
        for one in releases
        if one.pypi
    ]
    parts = [
        "On this machine",
        here,
        "",
        "On PyPI",
        format_table(("VERSION", "NVCC", "COMPILES FOR"), offered),
    ]
    return Answer(document, lambda: "\n".join([*parts, "", wrap_paragraph(_FROM_PYPI)]))


def _compiled_architectures(toolkit: Toolkit) -> list[str]:
    release = read_toolkits().release(toolkit.version)
    return list(map(str, sorted(release.architectures))) if release else []
