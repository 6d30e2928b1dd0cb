"""The host compiler: there, and taken by nvcc and by PyTorch."""

from __future__ import annotations

from dataclasses import dataclass

from torchwheel.host.model import Compiler
from torchwheel.preflight.context import Scene
from torchwheel.preflight.facts import HostCompilerLimits
from torchwheel.preflight.formatting import compiler_text
from torchwheel.preflight.msvc_library import msvc_libraries
from torchwheel.preflight.registry import Answer, Broken, Fine, checks_machine
from torchwheel.pytorch.releases import CompilerNeed
from torchwheel.toolkit.catalogue import ToolkitRelease
from torchwheel.versions import at_least, numbers

_INSTALL = {
    "Linux": "sudo apt-get install g++, or sudo dnf install gcc-c++",
    "Windows": "the Visual Studio Build Tools",
    "Darwin": "xcode-select --install",
}
_SILENCER = "allow-unsupported-compiler"
_LIBRARY_SILENCER = "_ALLOW_COMPILER_AND_STL_VERSION_MISMATCH"
_FLAG_OPTIONS = (
    "CMAKE_CUDA_FLAGS",
    "TORCH_NVCC_FLAGS",
    "NVCC_APPEND_FLAGS",
    "NVCC_PREPEND_FLAGS",
    "CUDAFLAGS",
)
_CHOOSERS = ("CMAKE_CUDA_HOST_COMPILER", "CUDA_HOST_COMPILER", "CUDAHOSTCXX", "NVCC_CCBIN")


@dataclass(frozen=True)
class _Limit:
    """What nvcc accepts of one family of compilers, and who says so."""

    least: tuple[int, ...]
    greatest: tuple[int, ...]
    sentence: str
    authority: str

    def takes(self, compiler: Compiler) -> bool:
        """Whether nvcc takes it: it compares majors, and the first two numbers of MSVC's version."""
        version = numbers(compiler.version)[: len(self.greatest)]
        return self.least <= version <= self.greatest


@checks_machine("no-host-compiler")
def there_is_one(scene: Scene) -> Answer:
    """Without a C++ compiler CMake stops at its first lines."""
    compiler = scene.host.host.compiler("cxx")
    system = scene.host.host.system
    if system == "Windows" or not (compiler or scene.host.compilers_known):
        return None
    if compiler is not None and compiler.found:
        return Fine({"compiler": compiler_text(compiler)})
    asked = f": CXX names {compiler.path}, which does not exist" if compiler else ""
    return Broken({"asked": asked}, _INSTALL.get(system, "your system's package"))


@checks_machine("host-compiler-refused-by-cuda")
def taken_by_nvcc(scene: Scene) -> Answer:
    """nvcc compares the host compiler's version with what it was tested with, and stops."""
    return _judged_by_nvcc(scene, silenced=False)


@checks_machine("host-compiler-check-silenced")
def not_silenced(scene: Scene) -> Answer:
    """The same, where a flag tells nvcc to go on."""
    return _judged_by_nvcc(scene, silenced=True)


def _judged_by_nvcc(scene: Scene, *, silenced: bool) -> Answer:
    compiler, limit = _nvcc_host_compiler(scene), None
    release = scene.combination.toolkit
    if compiler is not None and release is not None:
        limit = _limit(scene, compiler, release)
    if compiler is None or release is None or limit is None or _has_flag(scene, _SILENCER) is not silenced:
        return None
    values = {
        "version": release.version,
        "compiler": compiler_text(compiler),
        "limit": limit.sentence,
        "authority": limit.authority,
    }
    return Fine(values) if limit.takes(compiler) else Broken(values, _instead(scene, compiler, limit))


def _nvcc_host_compiler(scene: Scene) -> Compiler | None:
    """The compiler that nvcc will call, if its version is known."""
    named = next((value for name in _CHOOSERS if (value := _asked_for(scene, name))), None)
    own = scene.host.host.compiler("cxx")
    known = (*scene.host.host.compilers, *scene.host.other_compilers)
    if named is not None:
        wanted = _stem(named)
        own = next((c for c in known if c.path == named or _stem(c.path) == wanted), None)
    return own if own is not None and own.version and own.found else None


def _asked_for(scene: Scene, name: str) -> str:
    plan = scene.plan
    option = scene.combination.options.get(name)
    variable = plan.settings.variables.get(name)
    return option.value if option else str(variable.value) if variable else ""


def _has_flag(scene: Scene, flag: str) -> bool:
    return any(flag in _asked_for(scene, name) for name in _FLAG_OPTIONS)


def _limit(scene: Scene, compiler: Compiler, release: ToolkitRelease) -> _Limit | None:
    own = scene.toolkit.limits if scene.toolkit else None
    return (own and _from_header(own, compiler)) or _from_table(release, compiler)


def _from_header(limits: HostCompilerLimits, compiler: Compiler) -> _Limit | None:
    authority = "the toolkit's own crt/host_config.h"
    if compiler.kind == "gcc" and limits.gcc_max is not None:
        return _major_limit("GCC", limits.gcc_max, authority)
    if compiler.kind == "clang" and limits.clang_max is not None:
        return _major_limit("Clang", limits.clang_max, authority)
    if compiler.kind == "msvc" and limits.msvc_range is not None:
        return _msvc_limit(limits.msvc_range, authority)
    return None


def _from_table(release: ToolkitRelease, compiler: Compiler) -> _Limit | None:
    authority = "torchwheel's table of CUDA releases"
    if compiler.kind == "gcc":
        return _major_limit("GCC", release.gcc_max, authority)
    if compiler.kind == "clang":
        return _major_limit("Clang", release.clang_max, authority)
    return _msvc_limit(release.msvc_range, authority) if compiler.kind == "msvc" else None


def _major_limit(name: str, greatest: int, authority: str) -> _Limit:
    return _Limit((0,), (greatest,), f"it takes {name} up to {greatest}", authority)


def _msvc_limit(versions: tuple[int, int], authority: str) -> _Limit:
    least, greatest = (divmod(number, 100) for number in versions)
    sentence = f"it takes MSVC {least[0]}.{least[1]} to {greatest[0]}.{greatest[1]}"
    return _Limit(least, greatest, sentence, authority)


def _instead(scene: Scene, refused: Compiler, limit: _Limit) -> str:
    """The newest installed compiler that nvcc takes, else what to install."""
    able = [c for c in scene.host.other_compilers if c.kind == refused.kind and limit.takes(c)]
    if able:
        best = max(able, key=lambda compiler: numbers(compiler.version))
        return f"-C env.CUDAHOSTCXX={best.path}, which is {compiler_text(best)}"
    if refused.kind == "msvc":
        # Compiler 19.38 comes with toolset 14.38: https://learn.microsoft.com/cpp/overview/compiler-versions
        toolset = f"14.{limit.greatest[1]}"
        return f"install an MSVC toolset up to {toolset} in the Visual Studio Installer, or use a newer CUDA"
    package = {"gcc": "g++", "clang": "clang"}[refused.kind] + f"-{limit.greatest[0]}"
    program = {"gcc": "g++", "clang": "clang++"}[refused.kind] + f"-{limit.greatest[0]}"
    return f"install {package} and say -C env.CUDAHOSTCXX={program}, or use a newer CUDA"


@checks_machine("msvc-library-needs-newer-cuda")
def library_taken_by_nvcc(scene: Scene) -> Answer:
    """nvcc's own check can be silenced by a flag; the headers' check stays."""
    compiler, release = _nvcc_host_compiler(scene), scene.combination.toolkit
    if compiler is None or compiler.kind != "msvc" or release is None:
        return None
    values = {"compiler": compiler_text(compiler), "version": release.version}
    library = next((one for one in msvc_libraries() if at_least(compiler.version, one.msvc)), None)
    if library is None or at_least(release.version, library.cuda) or _has_flag(scene, _LIBRARY_SILENCER):
        return Fine(values)
    nearest = (
        f"use CUDA {library.cuda} or newer, or install an MSVC toolset older than {library.toolset} in the "
        "Visual Studio Installer"
    )
    return Broken({**values, "needed": library.cuda}, nearest)


def _stem(path: str) -> str:
    return path.replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".exe")


@checks_machine("host-compiler-too-old")
def taken_by_pytorch(scene: Scene) -> Answer:
    """PyTorch's sources need a C++ standard that old compilers do not have."""
    compiler, pytorch = scene.host.host.compiler("cxx"), scene.combination.pytorch
    if compiler is None or not compiler.version or pytorch is None:
        return None
    need = pytorch.compilers.needed(compiler.kind)
    if need is None:
        return None
    values = {
        "compiler": compiler_text(compiler),
        "pytorch": pytorch.version,
        "needed": f"{need.version} or later",
        "reason": _reason(need, compiler.kind),
    }
    if at_least(compiler.version, need.version):
        return Fine(values)
    return Broken(values, _newer(scene, compiler.kind, need.version))


def _reason(need: CompilerNeed, kind: str) -> str:
    if need.cxx_standard is None:
        return "its sources or its README ask for that"
    return f"its sources are C++{need.cxx_standard}, which {kind} knows from {need.version} on"


def _newer(scene: Scene, kind: str, needed: str) -> str:
    """An installed compiler of that kind that is new enough, else what to install."""
    able = [c for c in scene.host.other_compilers if c.kind == kind and at_least(c.version, needed)]
    return f"-C env.CXX={able[0].path}" if able else f"install {kind} {needed} or later"
