"""``torchwheel plan``: what a build would do."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from torchwheel.cli.request import populate_request, request_from
from torchwheel.plan.output import plan_document, render_plan
from torchwheel.preflight.doctor import examine_plan
from torchwheel.preflight.host_file import read_host_file
from torchwheel.preflight.report import NEEDLESS_BUILD
from torchwheel.reporting.errors import EXIT_REFUSED, refusal
from torchwheel.reporting.terminal import (
    count_noun,
    join_items,
    print_json,
    show,
    terminal_width,
    wants_colour,
)
from torchwheel.survey import BuildRequest, has_extensions


def populate(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Extensions that a setup.py describes are planned by running that file, up to the point where it would build: "
        "name no project that you would not install."
    )
    populate_request(parser)
    machine = parser.add_mutually_exclusive_group()
    platforms = "plan for win_amd64, linux_aarch64, … instead of this machine"
    machine.add_argument("--platform", metavar="TAG", help=platforms)
    described = "plan for the machine that FILE describes (doctor --dump-host)"
    machine.add_argument("--host", metavar="FILE.toml", type=Path, help=described)
    parser.add_argument("--python", metavar="VERSION", help="the Python of that platform, e.g. 3.13 or 3.14t")
    shape = parser.add_mutually_exclusive_group()
    explained = "show the build's environment too, and which layer decided every value"
    shape.add_argument("--explain", action="store_true", help=explained)
    shape.add_argument("--json", action="store_true", help="print the plan as a JSON document")


def run(parsed: argparse.Namespace) -> int:
    """Print the plan; the status is 2 if it has errors that would stop the build."""
    request = request_from(parsed)
    if has_extensions(request.project):
        return _plan_extensions(request, parsed)
    plan, examined = examine_plan(request, None if parsed.host is None else read_host_file(parsed.host))
    found, takes, rests_on = examined.report, examined.effort, examined.evidence
    if parsed.json:
        effort = takes.document() if takes else None
        print_json(plan_document(plan, found.findings, effort, rests_on, found.unchecked))
    else:
        columns, colour = terminal_width(), wants_colour()
        first = found.errors or [one for one in found.findings if one.id in NEEDLESS_BUILD]
        for finding in first:
            head = finding.head() if found.errors else "note: "
            show("\n".join((*finding.lines(columns, head, colour=colour), "")))
        rest = [one for one in found.findings if one not in first]
        rows = [*(takes.rows if takes else ()), *_list_evidence(rests_on, found.unchecked)]
        show(render_plan(plan, rest, columns, explain=parsed.explain, colour=colour, more=rows))
    return EXIT_REFUSED if found.errors else 0


def _plan_extensions(request: BuildRequest, parsed: argparse.Namespace) -> int:
    # Only here, because a plan of PyTorch needs none of its modules.
    from torchwheel.cli.extension import print_plan

    if unfit := [f"--{name}" for name in ("platform", "host", "explain") if getattr(parsed, name)]:
        raise refusal("contradiction/extensions", origin=unfit[0], options=join_items(unfit))
    return print_plan(request, as_json=parsed.json)


def _list_evidence(rests_on: str, unchecked: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
    """What the plan rests on, and how much of it nobody could check."""
    if rests_on:
        yield "evidence", rests_on
    if unchecked:
        checks = count_noun(sum(map(len, unchecked.values())), "check")
        yield "unchecked", f"{checks} could not be made; not known: {join_items(tuple(unchecked), 3)}"
