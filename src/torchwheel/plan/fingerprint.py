"""A short identifier of everything that affects a build's results, for the name of its folder."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping

from torchwheel.host.machine import Host
from torchwheel.plan.build_plan import Define, Variable
from torchwheel.settings import Layer
from torchwheel.system.files import short_digest
from torchwheel.toolkit.cuda_toolkit import Toolkit
from torchwheel.tree.source_tree import Tree

# These affect the speed of a build or where its programs find their libraries, not its result.
_WITHOUT_EFFECT = frozenset({"FLASH_ATTENTION_MAX_JOBS", "LD_LIBRARY_PATH", "PATH"})
# A folder keeps the compiler cache that it was started with.
_SWITCHES_OF_CACHES = frozenset({"USE_CCACHE"})
_WITHOUT_EFFECT_PREFIXES = ("CCACHE_", "SCCACHE_")
# The compiler that ccache runs instead of the given one (https://ccache.dev/manual/latest.html, "compiler").
_WITH_EFFECT = "CCACHE_COMPILER"

# scikit-build-core's settings that affect CMake's configure step.
_CONFIGURING = ("cmake.args", "cmake.python-hints", "cmake.source-dir", "cmake.toolchain-file")


def compute_fingerprint(
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
    """Return 12 hexadecimal digits over everything that requires a separate build directory.

    That is: the tree (not its content, because a changed file is just compiled again), the options, the requested
    variables (all others follow from the rest), the identity of the compilers and of nvcc, and Python's ABI. The
    wheel's version and the number of jobs are not part of it.

    Args:
        defines: the options, without the launchers of a compiler cache that torchwheel chooses.
        in_place: whether the tree is built in place, so that objects have other paths.
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
    # CMake configures a build directory for one path of the sources.
    if in_place:
        facts["in place"] = True
    if reproducible:
        facts["reproducible"] = True
    return hash_facts(facts)


def hash_facts(facts: object) -> str:
    """Return 12 hexadecimal digits over JSON-able data."""
    return short_digest([json.dumps(facts, sort_keys=True, separators=(",", ":"))])


def is_relevant(name: str) -> bool:
    """Whether an option or environment variable can change a build's result."""
    if name == _WITH_EFFECT:
        return True
    return name not in _WITHOUT_EFFECT and not name.startswith(_WITHOUT_EFFECT_PREFIXES)


def _is_own_python(define: Define) -> bool:
    """Whether a define is torchwheel's interpreter, whose path may change when the environment is created elsewhere."""
    return define.name == "Python_EXECUTABLE" and define.layer is Layer.DEFAULT
