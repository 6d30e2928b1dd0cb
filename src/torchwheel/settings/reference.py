"""The settings reference, docs/settings.md, made from the model and the data files.

``python -m torchwheel.settings.reference > docs/settings.md`` makes it anew.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from torchwheel._resources import overlays_folder
from torchwheel._toml import read_toml
from torchwheel.settings.components import Component, components
from torchwheel.settings.layers import Layer
from torchwheel.settings.model import Key, Where, extension_keys, file_header, keys, table_header
from torchwheel.settings.pytorch_env import pytorch_variables
from torchwheel.settings.sources import OTHER_VARIABLES, passthrough

_INTRODUCTION = """\
# Settings

<!-- Made by `python -m torchwheel.settings.reference > docs/settings.md`; do not edit. -->

A setting can be given in several places. Of one setting, the highest place that has it wins;
`torchwheel plan --explain` prints for every value where it comes from and what it replaced.
"""

_LAYERS = {
    Layer.CONFIG: "`-C key=value` to pip, build or uv",
    Layer.ENVIRONMENT: "`TORCHWHEEL_KEY` variables, then the [foreign variables](#foreign-variables) below",
    Layer.PROJECT: "`[tool.torchwheel.target.NAME]`, then `[tool.torchwheel]`, in pyproject.toml",
    Layer.USER_OVERLAY: "your own [overlay files](#overlay-files): the profiles', then the target's",
    Layer.BUILTIN_OVERLAY: "torchwheel's overlay files: the profiles', then the target's",
    Layer.DEFAULT: "the defaults in the table below",
}

_KEYS = """\
## Keys

In pyproject.toml:

```toml
[tool.torchwheel]
source = "../pytorch"
default-target = "rtx5070"
disable = ["distributed", "tests"]
define.USE_NATIVE_ARCH = true

[tool.torchwheel.target.rtx5070]
cuda = ">=12.8,<13"

[[tool.torchwheel.target.rtx5070.when]]
marker = "sys_platform == 'win32'"
jobs = 18
```

After `-C`, commas separate the items of a list and a dot the table from its entry: `-C
disable=distributed,tests`, `-C define.USE_NATIVE_ARCH=ON`, `-C env.CFLAGS=-O2`. In `TORCHWHEEL_DEFINE`
and `TORCHWHEEL_ENV` spaces separate the entries, quoted as for a shell.
"""

_ARCH = """\
The architectures of a build are those of its target, unless `arch` is given in the same layer that
names the target or in a higher one. So `-C target=rtx5070` beats a `TORCH_CUDA_ARCH_LIST` that happens
to be set, and the variable beats a target in pyproject.toml.
"""

_TARGET_TABLES = """\
## Target tables

`[tool.torchwheel.target.NAME]` adds to a known target, or makes a new one, which then needs `arch` or
`inherits`. It takes every key above but {not_in_tables}. Keys under a `[[when]]` with a `marker` (PEP
508) hold where the marker does. Beside settings the table takes:
"""

_EXTENSION_TABLES = """\
## Extension tables

With `build-backend = "torchwheel.extension.backend"`, a project that builds on PyTorch describes each of its extension
modules in a table of its own, and needs neither setup.py nor CMakeLists.txt:

```toml
[build-system]
requires = ["torchwheel", "torch"]
build-backend = "torchwheel.extension.backend"

[[tool.torchwheel.extension]]
name = "texture_kernels._C"
sources = ["csrc/*.cpp"]
cuda-sources = ["csrc/cuda/**/*.cu"]
architectures."sm90/*.cu" = "9.0a"
```

Paths are relative to the project.
"""

_OVERLAY_FILES = """\
## Overlay files

A file `NAME.toml` in the folder `overlays` of the user's configuration folder (`TORCHWHEEL_CONFIG_DIR`
names another) says the same of a target for all projects, or describes a profile. It takes the keys of
a target table (a profile: without {not_in_profiles}), and:
"""

_FOREIGN = """\
## Foreign variables

Variables that are not torchwheel's own but decide PyTorch's build. They belong to the environment
layer, below `TORCHWHEEL_*`; the build itself sees only what was resolved. Of several that become one
setting the first wins. An empty variable counts as not set.
"""

_IGNORED = "These only look like PyTorch's and are never taken over:\n"

_COMPONENTS = """\
## Components

What `enable` and `disable` take. A component that is switched off takes along what lower layers enable
and what cannot be without it.
"""

_PASSTHROUGH = """\
## Settings of the wrapped backends

These go on unread to scikit-build-core (whose keys may carry the prefix `skbuild.`) or setuptools, with
`-C` only:
"""


def reference() -> str:
    """The whole page, Markdown."""
    return "\n".join(
        [
            _INTRODUCTION,
            _table(("layer, highest first", "given by"), _layer_rows()),
            _KEYS,
            _table(("key", "value", "default", "meaning"), _key_rows(keys())),
            _ARCH,
            _TARGET_TABLES.format(not_in_tables=_without(Where.TARGET)),
            _table(("key", "value", "default", "meaning"), _key_rows(table_header())),
            _EXTENSION_TABLES,
            _table(("key", "value", "default", "meaning"), _key_rows(extension_keys())),
            _OVERLAY_FILES.format(not_in_profiles=_without(Where.PROFILE, among=Where.TARGET)),
            _table(("key", "value", "default", "meaning"), _key_rows(file_header())),
            "The files that come with torchwheel:\n",
            _table(("name", "kind", "what it is"), _overlay_rows()),
            "## torchwheel's own variables\n",
            _table(("variable", "meaning"), _own_variable_rows()),
            _FOREIGN,
            _table(("variable", "becomes"), _foreign_rows()),
            _IGNORED,
            _table(("variable", "why"), _ignored_rows()),
            _COMPONENTS,
            _table(("component", "what it is", "CMake options", "needs"), map(_component_row, components())),
            _PASSTHROUGH,
            ", ".join(f"`{name}`" for name in passthrough().names) + "\n",
        ]
    )


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |\n" for row in lines)


def _layer_rows() -> Iterator[tuple[str, ...]]:
    for layer in sorted(Layer, reverse=True):
        yield layer.title, _LAYERS[layer]


def _key_rows(described: Mapping[str, Key]) -> Iterator[tuple[str, ...]]:
    for name, key in described.items():
        written = f"`{name}.NAME`" if key.table else f"`{name}`"
        default = f"`{key.default}`" if isinstance(key.default, str) else ""
        yield written, key.type.form, default, f"{key.documentation} Example: `{key.toml_example()}`"


def _without(where: Where, among: Where | None = None) -> str:
    names = [name for name, key in keys().items() if where not in key.where]
    return ", ".join(f"`{name}`" for name in names if among is None or among in keys()[name].where)


def _overlay_rows() -> Iterator[tuple[str, ...]]:
    for file in sorted(overlays_folder().glob("*.toml")):
        content = read_toml(file)
        yield f"`{file.stem}`", content["kind"], content["title"]


def _own_variable_rows() -> Iterator[tuple[str, ...]]:
    for key in keys().values():
        if Where.COMMAND in key.where:
            yield f"`{key.variable}`", f"`{key.name}`"
    for name, description in OTHER_VARIABLES.items():
        yield f"`{name}`", description


def _foreign_rows() -> Iterator[tuple[str, ...]]:
    for entry in pytorch_variables().table["variable"]:
        yield _names(entry["names"]), _becomes(entry)
    for entry in pytorch_variables().table["prefix"]:
        yield _names(f"{name}*" for name in entry["names"]), _becomes(entry)


def _becomes(entry: Mapping[str, Any]) -> str:
    if "allowed" in entry:
        return f"nothing; only {_names(entry['allowed'])} are allowed, because {entry['why']}"
    if entry["becomes"] == "cmake-args":
        return "`-D` options become what a variable of their name would; the rest goes to CMake as it is"
    if entry["becomes"] in ("define", "env"):
        return f"`{entry['becomes']}.{entry.get('rename', 'NAME')}`"
    return f"`{entry['becomes']}`"


def _ignored_rows() -> Iterator[tuple[str, ...]]:
    for entry in pytorch_variables().table["ignored"]:
        yield _names(entry["names"]), entry["reason"]


def _component_row(component: Component) -> tuple[str, ...]:
    names = _names([component.name, *component.aliases])
    needs = ", ".join(" or ".join(group) for group in component.depends_on)
    only = f" ({', '.join(component.systems)} only)" if component.systems else ""
    return names, f"{component.title}{only}", _names(component.options), needs


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    sys.stdout.write(reference())
