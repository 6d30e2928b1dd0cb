"""``torchwheel targets``: the targets and profiles that overlays and tables describe, and where."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchwheel.cli.json_output import add_json_option, print_document
from torchwheel.errors import Problem, TorchwheelError
from torchwheel.hardware.catalogue import gpus
from torchwheel.host.this import this_host
from torchwheel.settings.layers import Layer, Setting
from torchwheel.settings.overlays import Definition, Overlays, read_overlays, user_overlays_folder
from torchwheel.settings.project import read_project, read_project_settings
from torchwheel.settings.targets import resolve_targets
from torchwheel.terminal import paragraph, table, terminal_width

_KINDS = ("target", "profile")


@dataclass(frozen=True)
class Described:
    """A target or profile that at least one overlay or table says something of.

    Attributes:
        name: canonical name.
        kind: ``target`` or ``profile``.
        architectures: what a target is compiled for, as labels; empty for cpu and for profiles.
        definitions: what is said of it, lowest layer first.
        title: what it is, in a few words; may be empty.
    """

    name: str
    kind: str
    architectures: tuple[str, ...]
    definitions: tuple[Definition, ...]
    title: str


def populate(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("filter", nargs="?", default="", metavar="FILTER", help="part of a name or title")
    add_json_option(parser)


def run(parsed: argparse.Namespace) -> int:
    """List what is described; problems of overlays that cannot be read follow.

    Raises:
        TorchwheelError: an overlay is malformed, or nothing fits.
    """
    problems: list[Problem] = []
    chosen = [one for one in described(Path.cwd(), os.environ, problems) if _fits(one, parsed.filter)]
    if not chosen and not problems:
        raise TorchwheelError(_nothing_fits(parsed.filter))
    if parsed.json:
        print_document("targets", targets=[_document(one) for one in chosen])
    else:
        print(_text(chosen, terminal_width()))
    if problems:
        raise TorchwheelError(dict.fromkeys(problems))
    return 0


def described(project: Path, environment: Mapping[str, str], problems: list[Problem]) -> list[Described]:
    """Everything that overlays and the project's tables describe: targets, then profiles.

    What is malformed is left out and added to ``problems``.
    """
    host = this_host(environment)
    tables: Mapping[str, Definition] = {}
    try:
        tables = read_project_settings(read_project(project), host, problems).targets
    except TorchwheelError as error:
        problems += error.problems
    overlays = read_overlays(tables, user_overlays_folder(environment), host, problems)
    return [
        one
        for kind in _KINDS
        for name in overlays.described_names()
        for one in _described(name, kind, overlays)
    ]


def _described(name: str, kind: str, overlays: Overlays) -> Iterator[Described]:
    definitions = overlays.definitions(name, kind)
    if not definitions:
        return
    title = next((item.title for item in reversed(definitions) if item.title), "")
    if kind == "profile":
        yield Described(name, kind, (), definitions, title)
        return
    named = Setting("target", (name,), Layer.CONFIG, definitions[-1].origin)
    for target in resolve_targets(named, overlays, None, overlays.problems):
        labels = target.architectures.labels if target.architectures else ()
        yield Described(name, kind, labels, definitions, target.title)


def _fits(one: Described, text: str) -> bool:
    wanted = text.casefold()
    return wanted in one.name.casefold() or wanted in one.title.casefold()


def _text(chosen: list[Described], width: int) -> str:
    headers = ("NAME", "KIND", "CODE", "FROM", "WHAT IT IS")
    rows = [
        (
            one.name,
            one.kind,
            " ".join(one.architectures),
            ", ".join(dict.fromkeys(item.layer.title for item in one.definitions)),
            _what(one),
        )
        for one in chosen
    ]
    count = sum(1 for _ in gpus())
    rest = (
        f"A target is also every one of the {count} GPUs that `torchwheel gpus` lists, native for the GPUs of this "
        "machine, and several joined by commas: a100,t4."
    )
    return "\n".join([table(headers, rows, width), "", paragraph(rest, width)])


def _what(one: Described) -> str:
    """Title and files; a built-in overlay's file is of no use to a reader."""
    files = [item.origin for item in one.definitions if item.layer is not Layer.BUILTIN_OVERLAY]
    return " ".join(filter(None, [one.title, f"({', '.join(files)})" if files else ""]))


def _document(one: Described) -> dict[str, Any]:
    return {
        "name": one.name,
        "kind": one.kind,
        "title": one.title,
        "architectures": list(one.architectures),
        "inherits": next((item.inherits for item in reversed(one.definitions) if item.inherits), None),
        "definitions": [{"layer": item.layer.title, "origin": item.origin} for item in one.definitions],
    }


def _nothing_fits(text: str) -> Problem:
    gpu = gpus().find(text)
    return Problem(
        id="unknown-target",
        what=f"no overlay describes a target or profile that fits {text!r}",
        remedy=f"{gpu.name} needs no overlay to be a target: --target {gpu.name}"
        if gpu
        else "`torchwheel targets` lists all of them, and `torchwheel gpus` the GPUs",
    )
