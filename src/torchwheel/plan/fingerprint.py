"""What makes one build's results differ from another's, as a short name for its folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from torchwheel.host.model import Host
from torchwheel.plan.model import Define, Variable
from torchwheel.toolkit.model import Toolkit
from torchwheel.tree.model import Tree

_DIGITS = 12


def fingerprint(
    tree: Tree,
    host: Host,
    toolkit: Toolkit | None,
    defines: Iterable[Define],
    variables: Iterable[Variable],
) -> str:
    """12 hexadecimal digits over everything that another build directory is needed for.

    That is: which tree (not its content: a changed file is compiled again, no more), the options and the
    environment, the identity of the compilers and of nvcc, and Python's ABI. The version of the wheel and the
    number of jobs are not part of it.
    """
    facts = {
        "tree": [tree.identity, tree.generation.value],
        "defines": {d.name: d.value for d in defines},
        "environment": {v.name: [v.value, v.prepend] for v in variables if v.identity},
        "compilers": sorted(f"{c.language}:{c.identity}" for c in host.compilers),
        "toolkit": toolkit.identity if toolkit else "",
        "python": [host.python.interpreter_tag, host.python.abi_tag, host.platform_tag],
    }
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:_DIGITS]
