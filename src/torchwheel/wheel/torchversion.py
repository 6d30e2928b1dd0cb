"""``torch/version.py``: what the module says of its own build, read without running it."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from torchwheel.errors import Problem, TorchwheelError

_STRINGS = ("__version__", "cuda", "git_version", "hip")


@dataclass(frozen=True)
class TorchVersion:
    """The values of ``torch/version.py``; None where the file has none.

    Attributes:
        version: ``torch.__version__``.
        cuda: version of the CUDA toolkit it was built with, e.g. ``13.0``; None for a CPU build.
        git_version: commit of the source tree.
        debug: whether it is a debug build.
        hip: version of the HIP it was built with, e.g. ``6.4.43482-0f2d60242``; None for other builds.
    """

    version: str | None
    cuda: str | None
    git_version: str | None
    debug: bool | None
    hip: str | None = None


def parse_torch_version(source: bytes, origin: str) -> TorchVersion:
    """Read the assignments of constants in a ``version.py``; nothing is executed.

    Raises:
        TorchwheelError: it is not Python.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise TorchwheelError(
            Problem(
                id="malformed-version-file",
                what=f"this is not Python: {error}",
                remedy="build the wheel again; the tree's tools/generate_torch_version.py writes this file",
                origin=origin,
            )
        ) from None
    constants = dict(constant for statement in tree.body if (constant := _constant(statement)))
    version, cuda, git_version, hip = (_text(constants.get(name)) for name in _STRINGS)
    debug = constants.get("debug")
    return TorchVersion(version, cuda, git_version, debug if isinstance(debug, bool) else None, hip)


def _constant(statement: ast.stmt) -> tuple[str, object] | None:
    """Name and value of ``name = constant`` or ``name: type = constant``."""
    if isinstance(statement, ast.AnnAssign):
        targets: list[ast.expr] = [statement.target]
    elif isinstance(statement, ast.Assign):
        targets = statement.targets
    else:
        return None
    target, value = targets[0], statement.value
    if len(targets) == 1 and isinstance(target, ast.Name) and isinstance(value, ast.Constant):
        return target.id, value.value
    return None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
