"""The flags that torchwheel adds, from ``compile_flags.toml``, and nvcc's for architectures."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from torchwheel.hardware.arch import ArchitectureList, CodeTarget, parse_architectures
from torchwheel.reporting.errors import Problem, TorchwheelError
from torchwheel.system.toml import read_toml

# GCC's and nvcc's names of draft standards.
_DRAFTS = {"0x": 11, "1y": 14, "1z": 17, "2a": 20, "2b": 23, "2c": 26}
_STANDARD = re.compile(r"(?P<option>--?std=|/std:|)(?P<dialect>c|gnu)\+\+(?P<number>\d[\dxyzabc])")

_PAIR = re.compile(r"arch=compute_(?P<arch>\w+),code=(?P<codes>\[[^][]*\]|[\w,]+|\"[^\"]*\")")
_GENERATE = ("-gencode", "--generate-code")
_ARCHITECTURE = ("-arch", "--gpu-architecture")
_CODE = ("-code", "--gpu-code")
ARCHITECTURE_OPTIONS = (*_GENERATE, *_ARCHITECTURE, *_CODE)


@dataclass(frozen=True)
class FlagSet:
    """The flags that torchwheel adds to PyTorch's own for one compiler.

    Attributes:
        compile: flag -> prefixes of flags that replace it.
        build_type: flags for every source, by build type.
    """

    compile: Mapping[str, tuple[str, ...]]
    build_type: Mapping[str, tuple[str, ...]]

    def for_sources(self, given: tuple[str, ...]) -> tuple[str, ...]:
        """Return the flags for every source, without those that the given flags replace."""
        replaced = (
            flag for flag, others in self.compile.items() if any(one.startswith(others) for one in given)
        )
        return tuple(flag for flag in self.compile if flag not in set(replaced))


@cache
def flag_set(name: str) -> FlagSet:
    """Read the shipped flags: ``gnu`` or ``nvcc``."""
    table = read_toml(Path(__file__).with_name("compile_flags.toml"))[name]
    return FlagSet(
        compile={flag: tuple(others) for flag, others in table["compile"].items()},
        build_type={kind: tuple(flags) for kind, flags in table["build-type"].items()},
    )


def raised_standard(flags: Sequence[str], least: int) -> tuple[str, ...]:
    """Raise every C++ standard in the flags to at least ``least``."""
    return tuple(_raise_flag(flag, before, least) for before, flag in zip(("", *flags), flags, strict=False))


def _raise_flag(flag: str, before: str, least: int) -> str:
    match = _STANDARD.fullmatch(flag)
    if match is None or not (match["option"] or before in ("-std", "--std")):
        return flag
    number = match["number"]
    # C++98 is older than C++11: modulo 90 it is 8.
    if _DRAFTS.get(number, int(number) if number.isdigit() else least) % 90 >= least:
        return flag
    return f"{match['option']}{match['dialect']}++{least}"


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
    options: list[str] = []
    spellings: list[str] = []
    virtual: list[str] = []
    codes: list[str] = []
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
        options.append(f"{_GENERATE[0] if option in _GENERATE else option}={value}")
        if option in _GENERATE:
            spellings += _pair_codes(option, value, origin)
        else:
            (codes if option in _CODE else virtual).append(value)
            if option in _ARCHITECTURE and value in ("all", "all-major", "native"):
                raise TorchwheelError(_unreadable_flag(f"{option}={value}", origin))
    # With -code, -arch names the virtual architecture and is not an image.
    spellings += (
        [code for value in codes for code in _split_codes(value)] if codes else map(_images_of, virtual)
    )
    architectures = parse_architectures(spellings, origin) if spellings else None
    return OwnArchitectures(tuple(own), tuple(others), architectures, tuple(options))


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
