"""What device code to compile, and how CMake, nvcc, PyTorch and a version label each spell it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from torchwheel.errors import Problem, TorchwheelError
from torchwheel.hardware.architecture import Architecture
from torchwheel.hardware.known_architectures import known_architectures


@dataclass(frozen=True, order=True)
class CodeTarget:
    """The device code for one architecture: machine code (SASS), PTX, or both.

    Raises:
        ValueError: neither is asked for.
    """

    architecture: Architecture
    sass: bool
    ptx: bool

    def __post_init__(self) -> None:
        if not (self.sass or self.ptx):
            raise ValueError(f"a code target needs SASS or PTX: {self.architecture}")

    @property
    def text(self) -> str:
        """The spelling that `parse_architectures` reads back: ``9.0``, ``9.0+PTX`` or ``compute_90``."""
        if not self.sass:
            return self.architecture.compute
        return f"{self.architecture.dotted}+PTX" if self.ptx else self.architecture.dotted


@dataclass(frozen=True)
class ArchitectureList:
    """What to compile for: sorted by architecture, each architecture once, at least one.

    ``str()`` of it is for messages and for reading back; unlike `for_torch` it can say everything.

    Raises:
        ValueError: the targets are not so; `ArchitectureList.of` makes them so.
    """

    targets: tuple[CodeTarget, ...]

    def __post_init__(self) -> None:
        architectures = [target.architecture for target in self.targets]
        if not architectures or architectures != sorted(set(architectures)):
            raise ValueError(f"not a sorted list of distinct architectures: {self.targets}")

    @classmethod
    def of(cls, targets: Iterable[CodeTarget]) -> ArchitectureList:
        """The list of these targets; those for one architecture are merged into one.

        Raises:
            ValueError: there are none.
        """
        sass: dict[Architecture, bool] = {}
        ptx: dict[Architecture, bool] = {}
        for target in targets:
            sass[target.architecture] = sass.get(target.architecture, False) or target.sass
            ptx[target.architecture] = ptx.get(target.architecture, False) or target.ptx
        return cls(tuple(CodeTarget(arch, sass[arch], ptx[arch]) for arch in sorted(sass)))

    @property
    def architectures(self) -> tuple[Architecture, ...]:
        """The architectures that there is SASS or PTX for, in order."""
        return tuple(target.architecture for target in self.targets)

    @property
    def labels(self) -> tuple[str, ...]:
        """The parts of a local version label, SASS first, then PTX, each by number: ``("sm90", "ptx90")``."""
        sass = tuple(target.architecture.label for target in self.targets if target.sass)
        return sass + tuple(target.architecture.ptx_label for target in self.targets if target.ptx)

    def for_torch(self) -> str:
        """``TORCH_CUDA_ARCH_LIST`` for PyTorch's own CMake build: ``9.0;12.0+PTX``.

        Never a comma, which that reader does not take. PyTorch 2.14 takes the suffix ``f``, 2.6 does not.

        Raises:
            TorchwheelError: there is PTX without SASS, which this variable cannot say.
        """
        problems = [_ptx_alone(target) for target in self.targets if not target.sass]
        if problems:
            raise TorchwheelError(problems)
        return str(self)

    def for_cpp_extension(self) -> str:
        """``TORCH_CUDA_ARCH_LIST`` for torch.utils.cpp_extension, which knows fewer architectures than CMake.

        Raises:
            TorchwheelError: it would refuse an architecture, or there is PTX without SASS; all are named.
        """
        problems = [problem for target in self.targets for problem in _cpp_extension_problems(target)]
        if problems:
            raise TorchwheelError(problems)
        return str(self)

    def for_cmake(self) -> str:
        """``CMAKE_CUDA_ARCHITECTURES``: ``90-real;120``, where a bare number is SASS and PTX.

        Source: https://cmake.org/cmake/help/latest/prop_tgt/CUDA_ARCHITECTURES.html
        """
        return ";".join(_cmake_item(target) for target in self.targets)

    def for_nvcc(self) -> tuple[str, ...]:
        """One ``-gencode`` option of nvcc for each image: ``-gencode=arch=compute_90,code=sm_90``."""
        return tuple(
            f"-gencode=arch={target.architecture.compute},code={code}"
            for target in self.targets
            for code, wanted in (
                (target.architecture.sm, target.sass),
                (target.architecture.compute, target.ptx),
            )
            if wanted
        )

    def __str__(self) -> str:
        return ";".join(target.text for target in self.targets)


def _cmake_item(target: CodeTarget) -> str:
    number = f"{target.architecture.number}{target.architecture.suffix}"
    if not target.sass:
        return f"{number}-virtual"
    return number if target.ptx else f"{number}-real"


def _ptx_alone(target: CodeTarget) -> Problem:
    dotted = target.architecture.dotted
    return Problem(
        id="ptx-without-sass",
        what=f"PyTorch cannot be told to make PTX for {dotted} without machine code for it",
        remedy=f"ask for '{dotted}+PTX', which makes both, or leave {target.text!r} out",
        why="TORCH_CUDA_ARCH_LIST can add PTX to an architecture, not ask for it alone",
    )


def _cpp_extension_problems(target: CodeTarget) -> list[Problem]:
    problems = [] if target.sass else [_ptx_alone(target)]
    architecture = target.architecture
    known = known_architectures().get(architecture)
    taken = known.cpp_extension_suffixes if known is not None else ()
    if architecture.suffix not in taken:
        problems.append(_cpp_extension_refuses(architecture, taken))
    return problems


def _cpp_extension_refuses(architecture: Architecture, taken: tuple[str, ...]) -> Problem:
    instead = " or ".join(f"'{architecture.capability.dotted}{suffix}'" for suffix in taken)
    return Problem(
        id="cpp-extension-lacks-architecture",
        what=f"torch.utils.cpp_extension does not take {architecture.dotted!r}",
        remedy=f"ask for {instead}"
        if instead
        else f"leave {architecture.dotted!r} out, or pass nvcc's own flags",
        why="its list of architectures is fixed in torch/utils/cpp_extension.py, and has no form with 'f'",
    )
