"""Which phase of which compiler does what, from ``phases.toml``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from torchwheel._toml import read_toml
from torchwheel.extension.profile.model import PhaseKind

_KINDS = {
    "preprocess": PhaseKind.PREPROCESS,
    "front-end": PhaseKind.FRONT_END,
    "device": PhaseKind.DEVICE,
    "host": PhaseKind.HOST,
    "optimize": PhaseKind.GENERATE,
    "assemble": PhaseKind.ASSEMBLE,
}


@cache
def _patterns() -> Mapping[str, tuple[tuple[re.Pattern[str], PhaseKind], ...]]:
    data = read_toml(Path(__file__).with_name("phases.toml"))
    return {
        compiler: tuple(
            (re.compile("|".join(patterns)), _KINDS[kind])
            for kind, patterns in table.items()
            if kind != "source"
        )
        for compiler, table in data.items()
    }


def phase_kind(compiler: str, name: str) -> PhaseKind | None:
    """What a phase does; None for a name that is no phase.

    Args:
        compiler: ``gcc``, ``clang``, ``nvcc`` or ``msvc``.
        name: the compiler's own name of it.
    """
    return next((kind for pattern, kind in _patterns()[compiler] if pattern.fullmatch(name)), None)
