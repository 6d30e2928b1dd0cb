"""``torchwheel plan``: what a build would do."""

from __future__ import annotations

import argparse
import json

from torchwheel.cli.request import populate_request, request_from
from torchwheel.plan.make import make_plan
from torchwheel.plan.output import plan_document, render_plan
from torchwheel.plan.shell import render_shell
from torchwheel.preflight import preflighted
from torchwheel.survey import survey


def populate(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    populate_request(parser)
    parser.add_argument(
        "--platform", metavar="TAG", help="plan for win_amd64, linux_aarch64, … instead of this machine"
    )
    parser.add_argument("--python", metavar="PATH", default="", help="the interpreter on that platform")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--explain", action="store_true", help="show which layer decided every value")
    shape.add_argument("--json", action="store_true", help="print the plan as a JSON document")
    shape.add_argument("--shell", action="store_true", help="print the equivalent cmake command line")


def run(parsed: argparse.Namespace) -> int:
    """Print the plan; the status is 1 if it has errors that would stop the build."""
    request = request_from(parsed)
    plan = preflighted(make_plan(survey(request)), request.environment)
    if parsed.json:
        print(json.dumps(plan_document(plan), indent=2))
    elif parsed.shell:
        print(render_shell(plan))
    else:
        print(render_plan(plan, explain=parsed.explain))
    stopping = [f for f in plan.errors if f.id not in plan.settings.skip_check]
    return 1 if stopping else 0
