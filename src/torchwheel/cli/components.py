"""``torchwheel components``: what a source tree lets its users switch."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchwheel.cli.documents import add_json_option, print_document
from torchwheel.cli.tables import table, terminal_width

if TYPE_CHECKING:
    from torchwheel.settings.components import Component
    from torchwheel.tree.model import Option, Tree

_LONGEST_DEFAULT = 16
"""Defaults of options that are no switches may be whole command lines."""


@dataclass(frozen=True)
class Switch:
    """An option of the tree, with the component it belongs to; None where there is no name for it."""

    option: Option
    component: Component | None


def populate(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "path",
        nargs="?",
        default=".",
        metavar="PATH",
        help="a PyTorch source tree or a wrapper project (default: here)",
    )
    add_json_option(parser)


def run(parsed: argparse.Namespace) -> int:
    """List the tree's options: first those that ``enable`` and ``disable`` have a name for."""
    tree = _tree(Path(parsed.path).absolute())
    switches = [*_named(tree), *_unnamed(tree)]
    if parsed.json:
        print_document(
            "components",
            tree={"root": str(tree.root), "version": tree.version_text},
            options=[_document(switch) for switch in switches],
        )
    else:
        print(_text(tree, switches, terminal_width()))
    return 0


def _tree(project: Path) -> Tree:
    from torchwheel.host import this_host
    from torchwheel.settings import load_settings
    from torchwheel.survey import source_tree

    settings = load_settings(project, {}, os.environ, this_host(os.environ))
    return source_tree(project, settings)


def _named(tree: Tree) -> Iterator[Switch]:
    """The options of components, in the catalogue's order, which puts related ones together."""
    from torchwheel.settings.components import components

    for component in components():
        for name in component.options:
            if name in tree.options:
                yield Switch(tree.options[name], component)


def _unnamed(tree: Tree) -> Iterator[Switch]:
    from torchwheel.settings.components import components

    for name, option in tree.options.items():
        if components().of_option(name) is None:
            yield Switch(option, None)


def _text(tree: Tree, switches: list[Switch], width: int) -> str:
    named = [switch for switch in switches if switch.component]
    others = [switch for switch in switches if not switch.component]
    lines = [f"{tree.root} ({tree.version_text})", ""]
    lines.append("Components: --enable NAME, --disable NAME")
    rows = [
        (switch.component.name if switch.component else "", switch.option.name, *_told(switch))
        for switch in named
    ]
    lines += [table(("NAME", "OPTION", "DEFAULT", "WHAT IT DOES"), rows, width), ""]
    lines.append("Everything else: -C define.OPTION=VALUE")
    rows = [(switch.option.name, *_told(switch)) for switch in others]
    return "\n".join([*lines, table(("OPTION", "DEFAULT", "WHAT IT DOES"), rows, width)])


def _told(switch: Switch) -> tuple[str, str]:
    """An option's default, and what it does and needs."""
    option = switch.option
    default = option.default
    if len(default) > _LONGEST_DEFAULT:
        default = default[: _LONGEST_DEFAULT - 3] + "..."
    needs = f"needs {_condition(option.depends)}" if option.depends else ""
    return default, "; ".join(filter(None, [_description(switch), needs]))


def _description(switch: Switch) -> str:
    """The tree's own words, and ours where it has none."""
    own = " ".join(switch.option.description.split()).rstrip(".")
    return own or (switch.component.title if switch.component else "")


def _condition(depends: str) -> str:
    return " AND ".join(part.strip() for part in depends.split(";") if part.strip())


def _document(switch: Switch) -> dict[str, Any]:
    option, component = switch.option, switch.component
    return {
        "option": option.name,
        "type": option.type,
        "default": option.default,
        "depends": option.depends,
        "description": option.description,
        "file": option.file,
        "line": option.line,
        "component": None
        if component is None
        else {"name": component.name, "aliases": list(component.aliases), "title": component.title},
    }
