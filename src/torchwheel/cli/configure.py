"""``torchwheel configure``: CMake's configuring alone, proved against the plan."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from torchwheel.cli.build import configured_document, print_outcome
from torchwheel.cli.request import add_output_options, populate_request, request_from
from torchwheel.engine.build import configure
from torchwheel.plan.build_plan import Plan
from torchwheel.plan.cmake_cache import Difference
from torchwheel.reporting.terminal import add_json_option, show


def populate(parser: argparse.ArgumentParser) -> None:
    populate_request(parser)
    add_output_options(parser)
    add_json_option(parser)


def run(parsed: argparse.Namespace) -> int:
    """Configure, and say where the build directory is."""
    if parsed.json:
        print_outcome("configure", lambda: configured_document(*configure(request_from(parsed))))
        return 0
    preflight, unproved = configure(request_from(parsed))
    plan = preflight.plan
    show(f"\nconfigured   {plan.folders.build}")
    show(f"proved       {_describe_proof(plan, unproved)}, in {plan.folders.cmake_values}")
    show(f"compile      cmake --build '{plan.folders.build}' --target c10")
    return 0


def _describe_proof(plan: Plan, unproved: Sequence[Difference]) -> str:
    expected = sum(define.expected for define in plan.defines)
    if not unproved:
        return f"all {expected} options have their planned values"
    others = ", ".join(f"{one.define.name} is '{one.effective}'" for one in unproved)
    return f"{expected - len(unproved)} of {expected} options have their planned values; {others}"
