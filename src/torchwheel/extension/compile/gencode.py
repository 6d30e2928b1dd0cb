"""nvcc's options for architectures: writing them, and reading those that a project brings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from torchwheel.errors import Problem, TorchwheelError
from torchwheel.hardware.arch import ArchitectureList, CodeTarget, parse_architectures

_PAIR = re.compile(r"arch=compute_(?P<arch>\w+),code=(?P<codes>\[[^\]]*\]|[\w,]+|\"[^\"]*\")")
_GENERATE = ("-gencode", "--generate-code")
_ARCHITECTURE = ("-arch", "--gpu-architecture")
_CODE = ("-code", "--gpu-code")


def shared_front_end(architectures: ArchitectureList) -> tuple[str, ...]:
    """nvcc's ``-gencode`` options with one pass of its front end for all machine code without suffix.

    The front end parses every header once for each virtual architecture. Here it runs once, for the oldest, and all
    machine code is assembled from its PTX: instructions and code paths of newer architectures are not used.
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
    """What a project's nvcc flags say about architectures.

    Attributes:
        flags: the flags that say it.
        others: all other flags, in order.
        architectures: what they ask for; None if they say nothing.
    """

    flags: tuple[str, ...]
    others: tuple[str, ...]
    architectures: ArchitectureList | None


def own_architectures(flags: Sequence[str], origin: str) -> OwnArchitectures:
    """Split nvcc flags into those about architectures and the others.

    Only nvcc's own options count: a flag that merely contains the text 'arch' says nothing about architectures.

    Raises:
        TorchwheelError: an option names what is no architecture.
    """
    own: list[str] = []
    others: list[str] = []
    spellings: list[str] = []
    words = iter(flags)
    for flag in words:
        option, _, value = flag.partition("=")
        if option in (*_GENERATE, *_ARCHITECTURE, *_CODE):
            own.append(flag)
            if not value:
                value = next(words, "")
                own.append(value)
            spellings += _spellings(option, value, origin)
        elif option.startswith("arch") and flag.startswith("arch=compute_"):
            own.append(flag)
            spellings += _spellings(_GENERATE[0], flag, origin)
        else:
            others.append(flag)
    return OwnArchitectures(
        tuple(own), tuple(others), parse_architectures(spellings, origin) if spellings else None
    )


def _spellings(option: str, value: str, origin: str) -> Iterator[str]:
    """The architectures of one option, as the architecture parser reads them."""
    if option in _GENERATE:
        pair = _PAIR.fullmatch(value.strip())
        if pair is None:
            raise TorchwheelError(_unreadable(f"{option}={value}", origin))
        yield from _codes(pair["codes"])
    elif option in _CODE:
        yield from _codes(value)
    elif value.startswith("sm_"):
        # -arch=sm_90 stands for -gencode=arch=compute_90,code=[sm_90,compute_90].
        yield f"{value.removeprefix('sm_')}+PTX"
    elif value not in ("all", "all-major", "native"):
        yield value
    else:
        raise TorchwheelError(_unreadable(f"{option}={value}", origin))


def _codes(text: str) -> Iterable[str]:
    return [code.strip() for code in text.strip('[]"').split(",") if code.strip()]


def _unreadable(flag: str, origin: str) -> Problem:
    return Problem(
        id="unreadable-architecture-flag",
        what=f"the nvcc flag {flag} does not say which architectures it means",
        why="the wheel is named for its architectures, and they are proved from its machine code",
        remedy="leave it out of the flags, and name them with target or arch (or -gencode=arch=compute_90,code=sm_90)",
        origin=origin,
    )
