"""What makes one build's results differ from another's, as a short name for its folder."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping

from torchwheel._files import short_digest
from torchwheel.host.model import Host
from torchwheel.plan.model import Define, Variable
from torchwheel.settings import Layer
from torchwheel.toolkit.model import Toolkit
from torchwheel.tree.model import Tree

# These change how fast a build runs or where its programs find their libraries, not what it makes.
_WITHOUT_EFFECT = frozenset({"FLASH_ATTENTION_MAX_JOBS", "LD_LIBRARY_PATH", "PATH"})
# A folder keeps the compiler cache that it was begun with.
_SWITCHES_OF_CACHES = frozenset({"USE_CCACHE"})
_WITHOUT_EFFECT_PREFIXES = ("CCACHE_", "SCCACHE_")
# What ccache runs in place of the compiler that it is given (https://ccache.dev/manual/latest.html, "compiler").
_WITH_EFFECT = "CCACHE_COMPILER"

# scikit-build-core's settings that CMake's configuring depends on.
_CONFIGURING = ("cmake.args", "cmake.python-hints", "cmake.source-dir", "cmake.toolchain-file")


def fingerprint(
    tree: Tree,
    host: Host,
    toolkit: Toolkit | None,
    python: str,
    requested_variables: Collection[str],
    backend_settings: Mapping[str, str | list[str]],
    defines: Iterable[Define],
    variables: Iterable[Variable],
    *,
    in_place: bool = False,
    reproducible: bool = False,
) -> str:
    """12 hexadecimal digits over everything that another build directory is needed for.

    That is: which tree (not its content: a changed file is compiled again, no more), the options, the
    variables that were requested (all others follow from the rest), the identity of the compilers and of nvcc, and
    Python's ABI. The version of the wheel and the number of jobs are not part of it.

    Args:
        defines: the options, without the launchers of a compiler cache that torchwheel chooses.
        python: the interpreter of the build, or what stands for it.
        requested_variables: names of the variables that were requested.
        backend_settings: what was requested of the tree's own backend.
        in_place: whether the tree is built where it lies; objects are made from other paths then.
        reproducible: whether compilers get the flags that make a build reproducible.
    """
    facts: dict[str, object] = {
        "tree": [tree.identity, tree.generation.value],
        "defines": {
            d.name: d.value
            for d in defines
            if is_relevant(d.name) and d.name not in _SWITCHES_OF_CACHES and not _is_own_python(d)
        },
        "environment": {
            v.name: v.value for v in variables if v.name in requested_variables and is_relevant(v.name)
        },
        "arguments": [backend_settings.get(key) for key in _CONFIGURING],
        "compilers": sorted(f"{c.language}:{c.identity}" for c in host.compilers),
        "toolkit": toolkit.identity if toolkit else "",
        "python": [python, host.python.interpreter_tag, host.python.abi_tag, host.platform_tag],
    }
    # CMake configures a folder for one place of the sources.
    if in_place:
        facts["in place"] = True
    if reproducible:
        facts["reproducible"] = True
    return digest(facts)


def digest(facts: object) -> str:
    """12 hexadecimal digits over JSON-able data."""
    return short_digest([json.dumps(facts, sort_keys=True, separators=(",", ":"))])


def is_relevant(name: str) -> bool:
    """Whether an option or environment variable can change what a build makes."""
    if name == _WITH_EFFECT:
        return True
    return name not in _WITHOUT_EFFECT and not name.startswith(_WITHOUT_EFFECT_PREFIXES)


def _is_own_python(define: Define) -> bool:
    """The interpreter that torchwheel chose, whose path may change where the same environment is made elsewhere."""
    return define.name == "Python_EXECUTABLE" and define.layer is Layer.DEFAULT
