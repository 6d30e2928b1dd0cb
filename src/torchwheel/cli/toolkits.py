"""``torchwheel toolkits``: the CUDA toolkits on this machine and on PyPI, or those that a target can be built with."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from torchwheel.hardware.architecture import Architecture
from torchwheel.preflight.toolkit_support import (
    WITHOUT_CUDA,
    ToolkitSupport,
    last_official_builds,
    toolkit_support,
)
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
from torchwheel.versions import format_span

_NONE_HERE = "No CUDA toolkit with a compiler was found on this machine."
_FROM_PYPI = (
    "With nvcc, it is a whole toolkit: torchwheel takes it from PyPI, once, where no installed one fits, and in any "
    "case with -C cuda-from=pypi. Without nvcc, there are headers and libraries only, and nothing to compile with."
)
_NEWER = " (newer than torchwheel's table: as its nvcc says)"
_MEANINGS = (
    "published: PyTorch's official builds for the platform are made with it",
    "untried: no rule excludes it, but no official build is known to be made with it",
    "ruled out: a rule or the target's own range excludes it; `torchwheel doctor` says why",
)
_LAST = "The last official build for it is PyTorch {build.torch} ({build.label}, CUDA {build.cuda}):"
_UNKNOWN_RELEASE = "not known: this release is not in the catalogue"


def populate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target",
        nargs="?",
        metavar="TARGET",
        help="a GPU or target: for each PyTorch, which CUDA releases are published, untried or ruled out",
    )
    add_json_option(parser)


def run(parsed: argparse.Namespace) -> int:
    """List the toolkits, best first, and the releases, newest first; for a target, what it can be built with."""
    if parsed.target:
        _print_support(parsed.target, as_json=parsed.json)
        return 0
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


def _print_support(target: str, *, as_json: bool) -> None:
    support, last_builds = toolkit_support(Path.cwd(), target), last_official_builds(target)
    if as_json:
        combinations = [
            {name: list(value) if isinstance(value, tuple) else value for name, value in vars(one).items()}
            for one in support
        ]
        last = [
            {"platform": platform, "pytorch": build.torch, "label": build.label, "install": build.command}
            for platform, build in last_builds.items()
        ]
        print_document("toolkits", target=target, combinations=combinations, last_official_builds=last)
        return
    width = terminal_width()
    for platform, rows in groupby(support, key=lambda one: one.platform):
        headers = (f"{target} on {platform}", "")
        show(f"{format_table(headers, _support_rows(rows), width)}\n")
        if build := last_builds.get(platform):
            show(f"{wrap_paragraph(_LAST.format(build=build), width)}\n    {build.command}\n")
    show("\n".join(wrap_paragraph(meaning, width) for meaning in _MEANINGS))


def _support_rows(support: Iterable[ToolkitSupport]) -> Iterator[tuple[str, str]]:
    """Yield a row for each run of PyTorch releases that go with the same toolkits."""
    for what, group in groupby(support, key=_status_text):
        yield f"    PyTorch {format_span([one.pytorch for one in group])}", what


def _status_text(support: ToolkitSupport) -> str:
    lists = {
        "published": support.published,
        "untried": support.untried,
        "ruled out": support.ruled_out,
    }
    return "; ".join(
        f"{status}: {_releases_text(versions)}" for status, versions in lists.items() if versions
    )


def _releases_text(versions: Sequence[str]) -> str:
    """Return ``CUDA 12.6, 12.9 to 13.2``: consecutive releases together."""
    if WITHOUT_CUDA in versions:
        return "without CUDA"
    order = [release.version for release in read_toolkits()]
    runs = [list(run) for _, run in groupby(enumerate(versions), lambda item: order.index(item[1]) - item[0])]
    return f"CUDA {', '.join(format_span([version for _, version in run]) for run in runs)}"


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
