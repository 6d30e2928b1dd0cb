"""``torchwheel configure``: CMake's configuring alone, proved against the plan."""

from __future__ import annotations

import argparse

from torchwheel.cli.build import configured_document, print_outcome
from torchwheel.cli.request import add_output_options, populate_request, request_from
from torchwheel.engine.build import configure
from torchwheel.preflight import Preflight
from torchwheel.reporting.terminal import add_json_option, show


def populate(parser: argparse.ArgumentParser) -> None:
    populate_request(parser)
    add_output_options(parser)
    add_json_option(parser)


def run(parsed: argparse.Namespace) -> int:
    """Configure, and say where the build directory is."""
    if parsed.json:
        print_outcome("configure", lambda: configured_document(*_configure(parsed)))
        return 0
    preflight, proved = _configure(parsed)
    plan = preflight.plan
    show(f"\nconfigured   {plan.folders.build}")
    show(f"proved       all {proved} options in {plan.folders.cmake_cache} are as planned")
    show(f"compile      cmake --build '{plan.folders.build}' --target c10")
    return 0


def _configure(parsed: argparse.Namespace) -> tuple[Preflight, int]:
    """The plan that was carried out, and how many of its options were proved."""
    preflight = configure(request_from(parsed))
    return preflight, sum(define.expected for define in preflight.plan.defines)
