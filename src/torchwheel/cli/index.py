"""``torchwheel index``: a site of wheels from which every machine takes its own."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from torchwheel.fleet.site import Choices, SiteUpdate, update_site
from torchwheel.index.catalogue import LACKS, YANKED, PlannedWheel
from torchwheel.reporting.errors import reading, refusal
from torchwheel.reporting.terminal import Answer, count_noun, fields_of, format_facts
from torchwheel.wheel.inspection import named_gpus
from torchwheel.wheel.variant import OLDEST_UV

_EPILOG = """\
Every wheel is proved first, as `torchwheel verify --no-install` does; one that
is not what it says stops the command, and nothing is added. Wheels of earlier
runs stay. A release that lacks a wheel that the one before it had is held back:
pip and uv take it only where its version is pinned, and get does not take it.
To roll back, withdraw the newest release with --yank.
"""


def populate(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    parser.add_argument("dist", metavar="DIST", nargs="*", help="wheels, and folders with wheels")
    parser.add_argument(
        "-o", "--output", metavar="SITE", required=True, help="the folder of the site, for any web server"
    )
    parser.add_argument(
        "--variants",
        action="store_true",
        help=f"also an index of wheel variants, from which uv {OLDEST_UV} and newer choose by the GPU; PEP 825 and "
        "850 are drafts",
    )
    parser.add_argument(
        "--matrix",
        metavar="FILE",
        action="append",
        default=[],
        help="what `torchwheel matrix` printed: the new releases must have these wheels, instead of those of the "
        "release before; may be repeated",
    )
    whatever = "offer the new releases, whatever wheels they lack"
    parser.add_argument("--partial", action="store_true", help=whatever)
    for name, what in (
        ("promote", "offer a release that is held back or withdrawn; may be repeated"),
        ("yank", "withdraw a release; may be repeated"),
    ):
        parser.add_argument(f"--{name}", metavar="NAME==VERSION", action="append", default=[], help=what)


def run(parsed: argparse.Namespace) -> Answer:
    if not all((*parsed.dist, parsed.output)):
        raise refusal("empty-path", origin="DIST" if parsed.output else "-o")
    environment = dict(os.environ)
    choices = Choices(
        parsed.variants,
        parsed.partial,
        tuple(job for file in parsed.matrix for job in _read_jobs(Path(file), environment)),
        tuple(_parse_requirement(text, "--promote") for text in parsed.promote),
        tuple(_parse_requirement(text, "--yank") for text in parsed.yank),
    )
    site = Path(parsed.output).absolute()
    sources = [Path(source).absolute() for source in parsed.dist]
    update = update_site(site, sources, environment, choices)
    wheels = [
        {
            **fields_of(wheel.file, "path", "sha256"),
            **fields_of(wheel, "label", "no_variant", "held"),
            "variant": wheel.variant.path if wheel.variant else None,
        }
        for wheel in update.wheels
    ]
    document = {"site": str(site), **fields_of(update, "added", "removed"), "wheels": wheels}
    return Answer(document, lambda: _render_update(update, site))


def _parse_requirement(text: str, option: str) -> Requirement:
    with suppress(InvalidRequirement):
        requirement = Requirement(text)
        if [one.operator for one in requirement.specifier] == ["=="]:
            return requirement
    raise refusal("malformed-release", origin=option, text=text)


def _read_jobs(file: Path, environment: dict[str, str]) -> Iterator[PlannedWheel]:
    with reading(file):
        content = file.read_bytes()
    try:
        for job in json.loads(content)["jobs"]:
            gpus = named_gpus(map(str, job["gpus"]), environment)
            yield PlannedWheel(gpus, str(job["python"]), str(job["platform"]))
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        detail = f"{type(error).__name__}: {error}"[:200]
        raise refusal("malformed-matrix", origin=file, detail=detail) from None


def _render_update(update: SiteUpdate, site: Path) -> str:
    indexes = sorted({wheel.index for wheel in update.wheels})
    variants = [wheel for wheel in update.wheels if wheel.variant]
    # The list of all nightlies would only grow.
    held = {
        f"{one.name}=={one.version.public}": one.held
        for one in update.wheels
        if one.held.startswith(LACKS) or one.decision == YANKED
    }
    rows = [
        ("site", f"{site}: {count_noun(len(update.wheels), 'wheel')}"),
        *_name_first("added", update.added),
        *_name_first("removed", update.removed),
        *_name_first("indexes", (f"{index}/simple" for index in indexes)),
        *_name_first("held back", (f"{name}: {why}" for name, why in held.items())),
    ]
    if lacking := [name for name, why in held.items() if why.startswith(LACKS)]:
        rows.append(("fix", f"add the missing wheels, or offer it as it is: --promote {lacking[0]}"))
    if variants:
        rows.append(("variants", f"simple: {count_noun(len(variants), 'wheel')}"))
        refused = [wheel for wheel in update.wheels if wheel.label and not wheel.variant and not wheel.held]
        rows += _name_first("no variant", (f"{one.file.name}: {one.no_variant}" for one in refused))
    return format_facts(rows, whole=("site", "added", "removed"))


def _name_first(name: str, values: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Rows of which only the first one has the name."""
    for number, value in enumerate(values):
        yield ("" if number else name), value
