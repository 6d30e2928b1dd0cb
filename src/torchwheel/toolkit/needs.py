"""Requirements on the CUDA toolkit: those of a PyTorch tree, and of extensions of an installed PyTorch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from torchwheel.hardware.architecture import TURING, Architecture
from torchwheel.host.machine import Host
from torchwheel.pytorch.releases import CudaSupport, PytorchRelease, nvcc_bug, published_builds, read_releases
from torchwheel.reporting.errors import Finding, Problem, Severity, error, note, warning
from torchwheel.settings import Settings
from torchwheel.toolkit.cuda_releases import ToolkitRelease, compiled_by, read_toolkits
from torchwheel.toolkit.cuda_toolkit import Toolkit, in_range
from torchwheel.toolkit.pypi import nvcc_releases, without_nvcc
from torchwheel.tree.source_tree import Tree
from torchwheel.versions import format_span, major_minor, parse_numbers

SYSTEM, PYPI = "system", "pypi"
"""Values of ``cuda-from``; the third, ``auto``, is neither."""


@dataclass(frozen=True)
class Needs(ABC):
    """A build's requirements on the CUDA toolkit: the CUDA releases that it accepts, and the preferred one."""

    settings: Settings
    host: Host
    architectures: tuple[Architecture, ...]

    without_release: ClassVar[str]
    """The advice if no CUDA release is usable."""

    @property
    @abstractmethod
    def subject(self) -> str:
        """What is built, in words."""

    @property
    @abstractmethod
    def takes_what(self) -> str:
        """The accepted CUDA releases, as a clause."""

    @property
    @abstractmethod
    def without_toolkit(self) -> str:
        """The advice if no toolkit can be installed."""

    @abstractmethod
    def check_release(self, cuda: str, root: str, origin: str) -> Finding | None:
        """Check a CUDA release for this build: an error, a warning or None."""

    @abstractmethod
    def sort_key(self, cuda: str) -> tuple[int, ...]:
        """The sort key of a CUDA release, the preferred first."""

    @abstractmethod
    def choose_release(self, serving: Sequence[str]) -> tuple[str, str] | None:
        """Choose from the usable releases, oldest first; also return the reason. None if there are none."""

    def may_come_from_pypi(self, cuda: str) -> bool:
        """Whether PyPI's packages of a release may be installed without an explicit request."""
        return True

    def not_on_pypi(self) -> Problem | None:
        """A specific reason why PyPI's packages are unusable; None for the general one."""
        return None

    @property
    def architecture_list(self) -> str:
        return ";".join(architecture.dotted for architecture in self.architectures)

    def accepts(self, cuda: str) -> bool:
        finding = self.check_release(cuda, "", "")
        allowed = in_range(cuda, None, self.settings.cuda) is not False
        return allowed and (finding is None or finding.severity is not Severity.ERROR)

    def compiling_releases(self) -> tuple[ToolkitRelease, ...]:
        """The releases for the machine that compile all the architectures, oldest first; may be empty."""
        able = read_toolkits().compiling_all(self.architectures)
        here = () if self.host.musl else able
        return tuple(release for release in here if self.host.platform_tag in release.platforms)

    def usable_releases(self) -> tuple[str, ...]:
        return tuple(one.version for one in self.compiling_releases() if self.accepts(one.version))

    def on_pypi(self) -> tuple[str, ...]:
        return nvcc_releases(self.host.platform_tag)

    def installable_releases(self) -> tuple[str, ...]:
        """The usable releases that may be installed from PyPI, oldest first."""
        offered = [one for one in self.usable_releases() if one in self.on_pypi()]
        requested = self.settings.cuda_from == PYPI
        return tuple(one for one in offered if requested or self.may_come_from_pypi(one))


@dataclass(frozen=True)
class TreeNeeds(Needs):
    """A PyTorch tree: checked against the minimum CUDA in its CMake files and the table of its release."""

    tree: Tree
    without_release = "build another release of PyTorch"

    @property
    def release(self) -> PytorchRelease | None:
        return read_releases().release(self.tree.version_text)

    @property
    def subject(self) -> str:
        return f"PyTorch {self.tree.version_text}"

    @property
    def without_toolkit(self) -> str:
        return "build without CUDA: -C target=cpu"

    @property
    def takes_what(self) -> str:
        return f"{self.subject} needs {self._range}"

    @property
    def _range(self) -> str:
        known = self.release.cuda if self.release else None
        least = self.tree.minimum_cuda or (known.minimum if known else None)
        parts = [f"CUDA {least} or later"] if least else []
        if known is not None and known.fails_from is not None:
            parts.append(f"{'' if parts else 'CUDA '}before {known.fails_from}")
        return " and ".join(parts) or "a CUDA that its own CMake files accept"

    def cuda_support(self, cuda: str) -> CudaSupport:
        least = self.tree.minimum_cuda
        # The minimum in the tree's own CMake files takes precedence over the table of its release.
        if least is not None and parse_numbers(cuda, 2) < parse_numbers(least, 2):
            return CudaSupport.TOO_OLD
        support = CudaSupport.UNKNOWN if self.release is None else self.release.cuda_accepts(cuda)
        return CudaSupport.UNKNOWN if least and support is CudaSupport.TOO_OLD else support

    def check_release(self, cuda: str, root: str, origin: str) -> Finding | None:
        support, release = self.cuda_support(cuda), self.release
        found = {"origin": origin, "cuda": cuda, "root": root}
        wanted = {"subject": self.subject, "range": self._range}
        if support is CudaSupport.TOO_OLD:
            return error(Problem.of("toolkit-too-old", **found, **wanted))
        if support is CudaSupport.FAILS:
            return error(Problem.of("toolkit-too-new", **found, **wanted))
        if support is CudaSupport.UNTRIED and release is not None:
            known = {"pytorch": release.minor_version, "newest": release.cuda.newest}
            instead = self._instead_of_untried()
            return warning(Problem.of("toolkit-untried", alternative=instead, **found, **known))
        return None

    def sort_key(self, cuda: str) -> tuple[int, ...]:
        has_bug = nvcc_bug(cuda, self.host.system) is not None
        return self.cuda_support(cuda) is not CudaSupport.ACCEPTED, has_bug

    def choose_release(self, serving: Sequence[str]) -> tuple[str, str] | None:
        release = self.release
        sound = [cuda for cuda in serving if nvcc_bug(cuda, self.host.system) is None]
        serving = sound or serving
        if not serving:
            return None
        if release is None:
            return serving[-1], "the newest CUDA"
        published = self._published_cuda(release)
        if published is not None and published in serving:
            return published, f"what PyTorch {release.minor_version} is published with"
        tested = release.cuda.before_turing
        if tested is not None and tested in serving and any(one < TURING for one in self.architectures):
            return tested, "what PyTorch tests for GPUs before Turing"
        if accepted := self._newest_accepted(serving):
            return accepted, f"the newest that PyTorch {release.minor_version} is known to take"
        return serving[0], f"nearest to what PyTorch {release.minor_version} is known to take"

    def may_come_from_pypi(self, cuda: str) -> bool:
        return self.cuda_support(cuda) is not CudaSupport.UNTRIED

    def _newest_accepted(self, among: Iterable[str]) -> str | None:
        accepted = [cuda for cuda in among if self.cuda_support(cuda) is CudaSupport.ACCEPTED]
        return accepted[-1] if accepted else None

    def _published_cuda(self, release: PytorchRelease) -> str | None:
        """The CUDA of PyPI's wheels: this platform's, or Linux's if those have none (Windows)."""
        for platform in (self.host.platform_tag, "linux_x86_64"):
            for build in published_builds(release, platform, self.host.python.abi_tag):
                if build.on_pypi and build.cuda is not None:
                    return build.cuda
        return None

    def _instead_of_untried(self) -> str:
        """Suggest an older CUDA that compiles the architectures, else the first PyTorch built with one that does."""
        fitting = [one for one in read_toolkits() if one.goes_with_glibc(self.host.glibc)]
        compiling = [one.version for one in self.compiling_releases() if one in fitting]
        if older := self._newest_accepted(compiling):
            return f"use CUDA {older}: -C cuda={older}"
        compiling = [one.version for one in fitting if {*self.architectures} <= one.architectures]
        for release in read_releases():
            if any(release.cuda_accepts(cuda) is CudaSupport.ACCEPTED for cuda in compiling):
                first = f"{release.minor_version} was the first with a CUDA that compiles for"
                return f"take a newer PyTorch: {first} {self.architecture_list}"
        return "build for other architectures with -C arch="


@dataclass(frozen=True)
class ExtensionNeeds(Needs):
    """Extensions of an installed PyTorch: checked against the CUDA that PyTorch was built with.

    As in torch.utils.cpp_extension, another major version is an error and another minor one a warning, see
    https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html.
    """

    torch_cuda: str
    without_release = "install a PyTorch of another CUDA"

    @property
    def subject(self) -> str:
        return f"extensions of a PyTorch with CUDA {self.torch_cuda}"

    @property
    def without_toolkit(self) -> str:
        offered = self.on_pypi()
        older = bool(offered) and parse_numbers(self.torch_cuda, 2) < parse_numbers(offered[0], 2)
        return f"use a PyTorch with CUDA {offered[0]} or later" if older else self.without_release

    @property
    def takes_what(self) -> str:
        return f"they need CUDA {parse_numbers(self.torch_cuda)[0]}"

    def check_release(self, cuda: str, root: str, origin: str) -> Finding | None:
        toolkit, torch = major_minor(cuda), major_minor(self.torch_cuda)
        if toolkit == torch:
            return None
        if parse_numbers(toolkit)[:1] != parse_numbers(torch)[:1]:
            return error(Problem.of("cuda-mismatch", origin=origin, toolkit=toolkit, torch=torch))
        return warning(Problem.of("cuda-mismatch/minor", origin=origin, toolkit=toolkit, torch=torch))

    def sort_key(self, cuda: str) -> tuple[int, ...]:
        """The distance to PyTorch's release: by major versions, then by minor ones."""
        (major, minor), (own_major, own_minor) = parse_numbers(cuda, 2), parse_numbers(self.torch_cuda, 2)
        return abs(major - own_major), abs(minor - own_minor)

    def choose_release(self, serving: Sequence[str]) -> tuple[str, str] | None:
        if not serving:
            return None
        nearest = min(serving, key=self.sort_key)
        same = nearest == major_minor(self.torch_cuda)
        reason = "what the installed PyTorch was built with"
        return nearest, reason if same else f"nearest to CUDA {self.torch_cuda}, {reason}"

    def not_on_pypi(self) -> Problem | None:
        release, tag = read_toolkits().release(self.torch_cuda), self.host.platform_tag
        if release is None or not release.pypi_nvcc:
            return without_nvcc(self.torch_cuda)
        if tag in release.platforms:
            return None
        tags = ", ".join(release.platforms)
        return Problem.of("no-packages-for-platform", cuda=release.version, platform=tag, platforms=tags)


def cuda_span(versions: Sequence[str]) -> str:
    return f"CUDA {format_span(versions)}" if versions else "no CUDA for this platform"


def find_objections(toolkit: Toolkit, needs: Needs, origin: str) -> Iterator[Problem]:
    if toolkit.nvcc is None:
        yield Problem.of("toolkit-without-nvcc", origin=origin, root=toolkit.root)
    allowed, others = needs.settings.cuda, tuple(_find_incapabilities(toolkit, needs, origin))
    # None: no file says which patch release it is.
    if not in_range(toolkit.version, toolkit.patch_release, allowed):
        # Suggesting another range would only lead to the next problem.
        yield Problem.of(
            "toolkit-outside-range" if others else "toolkit-outside-range/range",
            origin=origin,
            root=toolkit.root,
            cuda=toolkit.patch_release or toolkit.version,
            range=allowed,
            origin_of_range=needs.settings.entries["cuda"].origin,
            release=toolkit.version,
        )
    yield from others


def _find_incapabilities(toolkit: Toolkit, needs: Needs, origin: str) -> Iterator[Problem]:
    finding = needs.check_release(toolkit.version, toolkit.root, origin)
    if finding is not None and finding.severity is Severity.ERROR:
        yield finding.problem
    release = read_toolkits().release(toolkit.version)
    for one in needs.architectures:
        if release is not None and one not in release.architectures:
            yield Problem.of(
                "toolkit-lacks-architecture",
                origin=origin,
                cuda=toolkit.version,
                root=toolkit.root,
                sm=one.sm,
                dotted=one.dotted,
                span=compiled_by(one),
            )


def find_remarks(toolkit: Toolkit, needs: Needs, origin: str) -> Iterator[Finding]:
    if read_toolkits().is_newer(toolkit.version):
        newest = read_toolkits().newest().version
        values = {"cuda": toolkit.version, "root": toolkit.root, "newest": newest}
        yield note(Problem.of("toolkit-newer-than-table", origin=origin, **values))
    if finding := needs.check_release(toolkit.version, toolkit.root, origin):
        yield finding
