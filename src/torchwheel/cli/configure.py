"""``torchwheel configure``: CMake's configuring alone, proved against the plan."""

from __future__ import annotations

import argparse

from torchwheel.cli.request import populate_request, request_from


def populate(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    populate_request(parser)


def run(parsed: argparse.Namespace) -> int:
    """Configure, and say where the build directory is."""
    from torchwheel.engine.build import configure

    plan = configure(request_from(parsed))
    proved = sum(define.expected for define in plan.defines)
    print(f"\nconfigured   {plan.folders.build}")
    print(f"proved       all {proved} options in {plan.folders.cmake_cache} are as planned")
    print(f"compile      cmake --build '{plan.folders.build}' --target c10")
    return 0
