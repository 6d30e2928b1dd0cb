"""The flags that torchwheel adds, from ``compile_flags.toml``, and nvcc's for architectures."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from torchwheel.hardware.arch import ArchitectureList, CodeTarget, parse_architectures
from torchwheel.reporting.errors import Problem, TorchwheelError
from torchwheel.system.toml import shipped_toml

_PAIR = re.compile(r"arch=compute_(?P<arch>\w+),code=(?P<codes>\[[^][]*\]|[\w,]+|\"[^\"]*\")")
_GENERATE = ("-gencode", "--generate-code")
_ARCHITECTURE = ("-arch", "--gpu-architecture")
_CODE = ("-code", "--gpu-code")
_OWN_FLAGS = Path(__file__).with_name("compile_flags.toml")
ARCHITECTURE_OPTIONS = (*_GENERATE, *_ARCHITECTURE, *_CODE)


@cache
def own_flags(compiler: str) -> dict[str, dict[str, list[str]]]:
    """The flags that torchwheel adds to PyTorch's own for ``gnu`` or ``nvcc``: a table of ``compile_flags.toml``."""
    table: dict[str, dict[str, list[str]]] = shipped_toml(_OWN_FLAGS)[compiler]
    return table


def shared_front_end(architectures: ArchitectureList) -> tuple[str, ...]:
    """Return nvcc's ``-gencode`` options with a single front-end pass for all machine code without suffix.

    The front end parses every header once for each virtual architecture. Here it runs once, for the oldest, and all
    machine code is assembled from its PTX, without instructions and code paths of newer architectures.
    """
    shared = [t for t in architectures.targets if t.sass and not t.architecture.suffix]
    if len(shared) < 2:
        return architectures.for_nvcc()
    images = ",".join(t.architecture.sm for t in shared)
    rest = [
        *(CodeTarget(t.architecture, sass=False, ptx=True) for t in shared if t.ptx),
        *(t for t in architectures.targets if t not in shared),
    ]
    return (
        f"-gencode=arch={shared[0].architecture.compute},code=[{images}]",
        *(ArchitectureList.of(rest).for_nvcc() if rest else ()),
    )


@dataclass(frozen=True)
class OwnArchitectures:
    """The architectures in a project's nvcc flags.

    Attributes:
        architectures: the architectures; None if the flags have none.
        options: the flags, each as one word.
    """

    flags: tuple[str, ...]
    others: tuple[str, ...]
    architectures: ArchitectureList | None
    options: tuple[str, ...] = ()


def own_architectures(flags: Sequence[str], origin: str) -> OwnArchitectures:
    """Split nvcc flags into those about architectures and the others.

    Only nvcc's own options count, not every flag that contains the text 'arch'.
    """
    own: list[str] = []
    others: list[str] = []
    options: list[tuple[str, str]] = []
    words = iter(flags)
    for flag in words:
        option, _, value = flag.partition("=")
        if option in ARCHITECTURE_OPTIONS:
            own.append(flag)
            if not value:
                value = next(words, "")
                own.append(value)
        elif flag.startswith("arch=compute_"):
            own.append(flag)
            option, value = _GENERATE[0], flag
        else:
            others.append(flag)
            continue
        options.append((_GENERATE[0] if option in _GENERATE else option, value))
    spelled = tuple(f"{option}={value}" for option, value in options)
    for option, value in options:
        if option in _ARCHITECTURE and value in ("all", "all-major", "native"):
            raise TorchwheelError(_unreadable_flag(f"{option}={value}", origin))
    pairs = [code for one, value in options if one in _GENERATE for code in _pair_codes(one, value, origin)]
    codes = [code for one, value in options if one in _CODE for code in _split_codes(value)]
    # With -code, -arch names the virtual architecture and is not an image.
    images = codes or [_images_of(value) for one, value in options if one in _ARCHITECTURE]
    architectures = parse_architectures([*pairs, *images], origin) if pairs or images else None
    return OwnArchitectures(tuple(own), tuple(others), architectures, spelled)


def _pair_codes(option: str, value: str, origin: str) -> list[str]:
    pair = _PAIR.fullmatch(value.strip())
    if pair is None:
        raise TorchwheelError(_unreadable_flag(f"{option}={value}", origin))
    return _split_codes(pair["codes"])


def _images_of(architecture: str) -> str:
    """The images of ``-arch=sm_90``, which means ``-gencode=arch=compute_90,code=[sm_90,compute_90]``."""
    return f"{architecture.removeprefix('sm_')}+PTX" if architecture.startswith("sm_") else architecture


def _split_codes(text: str) -> list[str]:
    return [code.strip() for code in text.strip('[]"').split(",") if code.strip()]


def _unreadable_flag(flag: str, origin: str) -> Problem:
    return Problem.of("unreadable-architecture-flag", origin=origin, flag=flag)
