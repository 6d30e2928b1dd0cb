"""The flags that extensions are compiled and linked with, from ``compile_flags.toml``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from torchwheel._toml import read_toml

_OPTIMISATION = ("-O", "/O", "--optimize")


@dataclass(frozen=True)
class FlagSet:
    """The flags of one compiler.

    Attributes:
        compile: for every source.
        standard: the option for a C++ standard, with ``{standard}`` for its number.
        link: for every module.
        build_type: for every source, by build type.
    """

    compile: tuple[str, ...]
    standard: str
    link: tuple[str, ...]
    build_type: Mapping[str, tuple[str, ...]]

    def for_sources(self, build_type: str, given: tuple[str, ...] = ()) -> tuple[str, ...]:
        """What every source is compiled with; an optimisation level among the given flags replaces the build type's.

        Compilers would take the last, but nvcc warns of every second one.
        """
        own = self.build_type.get(build_type, ())
        if any(flag.startswith(_OPTIMISATION) for flag in given):
            own = tuple(flag for flag in own if not flag.startswith(_OPTIMISATION))
        return (*own, *self.compile)

    def standard_flag(self, standard: int, given: tuple[str, ...]) -> tuple[str, ...]:
        """The option for a C++ standard, unless the given flags choose one: nvcc refuses a second."""
        prefix = self.standard.partition("{")[0].removesuffix("c++")
        if any(flag.startswith((prefix, f"-{prefix}")) for flag in given):
            return ()
        return (self.standard.format(standard=standard),)


@cache
def flag_set(name: str) -> FlagSet:
    """The shipped flags: ``gnu``, ``msvc``, ``nvcc``, or ``nvcc-windows``, which come on top."""
    table = read_toml(Path(__file__).with_name("compile_flags.toml"))[name]
    return FlagSet(
        compile=tuple(table["compile"]),
        standard=table.get("standard", ""),
        link=tuple(table.get("link", ())),
        build_type={kind: tuple(flags) for kind, flags in table.get("build-type", {}).items()},
    )
