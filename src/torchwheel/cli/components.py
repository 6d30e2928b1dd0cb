"""``torchwheel components``: what a source tree lets its users switch."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchwheel.cli.answer import Answer, fields_of
from torchwheel.cli.request import add_path_argument
from torchwheel.host.this import this_host
from torchwheel.reporting.terminal import format_table, terminal_width
from torchwheel.settings import load_settings
from torchwheel.settings.components import Component, read_components
from torchwheel.survey import source_tree
from torchwheel.tree.source_tree import Option, Tree

_REFERENCE = re.compile(r"\$\{(\w+)\}")
_LONGEST_DEFAULT = 16
"""Defaults of options that are no switches may be whole command lines."""


@dataclass(frozen=True)
class Switch:
    """An option of the tree, with the component it belongs to; None where there is no name for it."""

    option: Option
    component: Component | None


def populate(parser: argparse.ArgumentParser) -> None:
    add_path_argument(parser)
    parser.add_argument(
        "--all",
        action="store_true",
        help="also the options that no component stands for (as --json always does)",
    )


def run(parsed: argparse.Namespace) -> Answer:
    tree = _read_tree(Path(parsed.path).absolute())
    named, others = list(_named_switches(tree)), list(_unnamed_switches(tree))
    document = {
        "tree": {"root": str(tree.root), "version": tree.version_text},
        "options": [_switch_document(switch) for switch in (*named, *others)],
    }
    return Answer(document, lambda: _render_switches(tree, named, others, all_options=parsed.all))


def _read_tree(project: Path) -> Tree:
    settings = load_settings(project, {}, os.environ, this_host())
    return source_tree(project, settings)


def _named_switches(tree: Tree) -> Iterator[Switch]:
    """The options of components, in the catalogue's order, which puts related ones together."""
    for component in read_components():
        for name in component.options:
            if name in tree.options:
                yield Switch(tree.options[name], component)


def _unnamed_switches(tree: Tree) -> Iterator[Switch]:
    for name, option in tree.options.items():
        if read_components().of_option(name) is None:
            yield Switch(option, None)


def _render_switches(tree: Tree, named: list[Switch], others: list[Switch], *, all_options: bool) -> str:
    width = terminal_width()
    lines = [f"{tree.root} ({tree.version_text})", "", "Components: --enable NAME, --disable NAME"]
    rows = [
        (
            switch.component.name,
            _describe_default(switch),
            f"{switch.option.name}: {_describe_effect(switch)}",
        )
        for switch in named
        if switch.component
    ]
    lines += [format_table(("NAME", "DEFAULT", "OPTION, AND WHAT IT DOES"), rows, width), ""]
    if all_options:
        lines.append("Other options: -C define.OPTION=VALUE")
        rows = [
            (switch.option.name, _describe_default(switch), _describe_effect(switch)) for switch in others
        ]
        lines.append(format_table(("OPTION", "DEFAULT", "WHAT IT DOES"), rows, width))
    else:
        lines.append(f"{len(others)} other options can be set with -C define.OPTION=VALUE; --all lists them.")
    return "\n".join(lines)


def _describe_default(switch: Switch) -> str:
    """The default as the tree writes it; of another variable's value, which CMake knows, that variable."""
    text = switch.option.default
    if reference := _REFERENCE.fullmatch(text):
        return f"as {reference[1]}"
    return text if len(text) <= _LONGEST_DEFAULT else text[: _LONGEST_DEFAULT - 3] + "..."


def _describe_effect(switch: Switch) -> str:
    depends = switch.option.depends
    needs = f"needs {_describe_condition(depends)}" if depends else ""
    return "; ".join(filter(None, [_describe_switch(switch), needs]))


def _describe_switch(switch: Switch) -> str:
    """The tree's own words, and ours where it has none."""
    own = " ".join(switch.option.description.split()).rstrip(".")
    return own or (switch.component.title if switch.component else "")


def _describe_condition(depends: str) -> str:
    """A ``cmake_dependent_option``'s condition, where each ``;`` joins what must all hold."""
    parts = [part.strip() for part in depends.split(";") if part.strip()]
    if len(parts) == 1:
        return parts[0]
    return " AND ".join(f"({part})" if " OR " in part else part for part in parts)


def _switch_document(switch: Switch) -> dict[str, Any]:
    option, component = switch.option, switch.component
    return {
        "option": option.name,
        **fields_of(option, "type", "default", "depends", "description", "file", "line"),
        "component": fields_of(component, "name", "aliases", "title") if component else None,
    }
