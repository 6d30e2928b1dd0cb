"""The settings reference, docs/settings.md: the text of settings_page.md with tables of the model and the data files.

``make docs`` makes it anew.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from torchwheel.settings.components import Component, read_components
from torchwheel.settings.config_settings import OTHER_VARIABLES, read_passthrough
from torchwheel.settings.known_keys import EXTENSION_KEYS, FILE_HEADER, TABLE_HEADER, Key, Where, all_keys
from torchwheel.settings.layers import Layer
from torchwheel.settings.pytorch_env import pytorch_variables
from torchwheel.system.files import overlays_folder
from torchwheel.system.toml import read_toml

_LAYERS = {
    Layer.CONFIG: "`-C key=value` to pip, build or uv",
    Layer.ENVIRONMENT: "`TORCHWHEEL_KEY` variables, then the [variables of PyTorch's build]"
    "(#variables-of-pytorchs-build) below",
    Layer.PROJECT: "`[tool.torchwheel.target.NAME]`, then `[tool.torchwheel]`, in pyproject.toml",
    Layer.USER_OVERLAY: "your own [overlay files](#overlay-files): the profiles', then the target's",
    Layer.BUILTIN_OVERLAY: "torchwheel's overlay files: the profiles', then the target's",
    Layer.DEFAULT: "the defaults in the table below",
}


def reference() -> str:
    """The whole page, Markdown."""
    table = pytorch_variables().table
    overlays = ((file.stem, read_toml(file)) for file in sorted(overlays_folder().glob("*.toml")))
    settings = [key for key in all_keys().values() if Where.COMMAND in key.where]
    return (
        Path(__file__)
        .with_name("settings_page.md")
        .read_text(encoding="utf-8")
        .format(
            layers=_table("layer, highest first | given by", ((one.title, _LAYERS[one]) for one in _LAYERS)),
            keys=_key_table(all_keys()),
            not_in_tables=_names(name for name, key in all_keys().items() if Where.TARGET not in key.where),
            table_header=_key_table(TABLE_HEADER),
            extension_keys=_key_table(EXTENSION_KEYS),
            not_in_profiles=_names(
                name
                for name, key in all_keys().items()
                if Where.TARGET in key.where and Where.PROFILE not in key.where
            ),
            file_header=_key_table(FILE_HEADER),
            overlays=_table(
                "name | kind | what it is",
                ((f"`{name}`", one["kind"], one["title"]) for name, one in overlays),
            ),
            own_variables=_table(
                "variable | meaning",
                [
                    *((f"`{key.variable}`", f"`{key.name}`") for key in settings),
                    *((f"`{name}`", meaning) for name, meaning in OTHER_VARIABLES.items()),
                ],
            ),
            variables=_table("variable | becomes", _variable_rows(table)),
            ignored=_table(
                "variable | why", ((_names(entry["names"]), entry["reason"]) for entry in table["ignored"])
            ),
            components=_table(
                "component | what it is | CMake options | needs", map(_component_row, read_components())
            ),
            passthrough=_names(read_passthrough().backends),
            unlabelled=_names(one.name for one in read_components() if not one.labelled),
        )
    )


def _table(head: str, rows: Iterable[tuple[str, ...]]) -> str:
    heads = head.split(" | ")
    lines = [heads, ["---"] * len(heads), *([cell.replace("|", r"\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _key_table(described: Mapping[str, Key]) -> str:
    rows = (
        (
            f"`{name}.NAME`" if key.table else f"`{name}`",
            key.type.form,
            f"`{key.default}`" if isinstance(key.default, str) else "",
            f"{key.documentation} Example: `{key.toml_example()}`",
        )
        for name, key in described.items()
    )
    return _table("key | value | default | meaning", rows)


def _variable_rows(table: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for entry in table["variable"]:
        yield _names(entry["names"]), _becomes(entry)
    for entry in table["prefix"]:
        yield _names(f"{name}*" for name in entry["names"]), _becomes(entry)
    packages = ", ".join(table["package"]["names"])
    yield f"`PACKAGE_ROOT`, in capitals too, and `PACKAGE_DIR`, for {packages}", "`env.NAME`"


def _becomes(entry: Mapping[str, Any]) -> str:
    if "allowed" in entry:
        return f"nothing; only {_names(entry['allowed'])} are allowed, because {entry['why']}"
    if entry["becomes"] == "cmake-args":
        return "`-D` options become what a variable of their name would; the rest goes to CMake as it is"
    if entry["becomes"] in ("define", "env"):
        return f"`{entry['becomes']}.{entry.get('rename', 'NAME')}`"
    return f"`{entry['becomes']}`"


def _component_row(component: Component) -> tuple[str, ...]:
    names = _names([component.name, *component.aliases])
    needs = ", ".join(" or ".join(group) for group in component.depends_on)
    only = f" ({', '.join(component.systems)} only)" if component.systems else ""
    return names, f"{component.title}{only}", _names(component.options), needs


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    sys.stdout.write(reference())
