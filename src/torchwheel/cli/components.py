"""``torchwheel components``: what a source tree lets its users switch."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from torchwheel.cli.request import add_path_argument
from torchwheel.host.this import this_host
from torchwheel.reporting.terminal import Answer, fields_of, format_table
from torchwheel.settings import load_settings
from torchwheel.settings.components import read_components
from torchwheel.survey import source_tree
from torchwheel.tree.cmake_options import Option
from torchwheel.tree.source_tree import Tree

_LONGEST_DEFAULT = 16
"""Defaults of options that are no switches may be whole command lines."""


def populate(parser: argparse.ArgumentParser) -> None:
    add_path_argument(parser)
    also = "also the options that no component stands for (as --json always does)"
    parser.add_argument("--all", action="store_true", help=also)


def run(parsed: argparse.Namespace) -> Answer:
    project = Path(parsed.path).absolute()
    tree = source_tree(project, load_settings(project, {}, os.environ, this_host()))
    # In the catalogue's order, which puts related ones together.
    known = (tree.options.get(name) for component in read_components() for name in component.options)
    named = [option for option in known if option]
    others = [option for name, option in tree.options.items() if read_components().of_option(name) is None]
    document = {
        "tree": {"root": str(tree.root), "version": tree.version_text},
        "options": [_option_document(option) for option in (*named, *others)],
    }
    return Answer(document, lambda: _render_options(tree, named, others, all_options=parsed.all))


def _render_options(tree: Tree, named: list[Option], others: list[Option], *, all_options: bool) -> str:
    lines = [f"{tree.root} ({tree.version_text})", "", "Components: --enable NAME, --disable NAME"]
    rows = [
        (component.name, _describe_default(option), f"{option.name}: {_describe_effect(option)}")
        for option in named
        if (component := read_components().of_option(option.name))
    ]
    lines += [format_table(("NAME", "DEFAULT", "OPTION, AND WHAT IT DOES"), rows), ""]
    if all_options:
        lines.append("Other options: -C define.OPTION=VALUE")
        rows = [(option.name, _describe_default(option), _describe_effect(option)) for option in others]
        lines.append(format_table(("OPTION", "DEFAULT", "WHAT IT DOES"), rows))
    else:
        lines.append(f"{len(others)} other options can be set with -C define.OPTION=VALUE; --all lists them.")
    return "\n".join(lines)


def _describe_default(option: Option) -> str:
    text = option.default
    return text if len(text) <= _LONGEST_DEFAULT else f"{text[: _LONGEST_DEFAULT - 3]}..."


def _describe_effect(option: Option) -> str:
    # The tree's own words, and ours where it has none.
    component = read_components().of_option(option.name)
    own = " ".join(option.description.split()).rstrip(".") or (component.title if component else "")
    needs = f"needs {option.depends}" if option.depends else ""
    return "; ".join(filter(None, [own, needs]))


def _option_document(option: Option) -> dict[str, Any]:
    component = read_components().of_option(option.name)
    return {
        "option": option.name,
        **fields_of(option, "type", "default", "depends", "description", "file", "line"),
        "component": fields_of(component, "name", "aliases", "title") if component else None,
    }
