"""The commands that compile and link one extension."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath, PureWindowsPath

from torchwheel.extension.compile.flags import flag_set, shared_front_end
from torchwheel.extension.compile.units import SOURCE, TOOLKIT, TORCH, Layout, Unit
from torchwheel.extension.extension_plan import (
    COMPILING,
    Extension,
    ExtensionInputs,
    Flags,
    Language,
    Step,
    StepKind,
)
from torchwheel.extension.wheel_naming import PY_LIMITED_API
from torchwheel.hardware.arch import ArchitectureList
from torchwheel.host.compilers import command_words
from torchwheel.host.machine import Compiler, is_free_threaded
from torchwheel.reproducible import nvcc_naming
from torchwheel.settings import Settings
from torchwheel.toolkit.cuda_toolkit import Toolkit

# nvcc has its own optimisation and conformance flags for cl.
_NOT_FOR_NVCC = ("/nologo", "/permissive-", "/Zc:__cplusplus", "/bigobj")

"""Files that ``-l`` and ``libraries`` may mean."""

_KINDS = {language: kind for kind, language in COMPILING.items()}
_VARIABLES = {
    Language.C: ("CPPFLAGS", "CFLAGS"),
    Language.CXX: ("CPPFLAGS", "CFLAGS", "CXXFLAGS"),
    Language.CUDA: ("CUDAFLAGS",),
}


@dataclass(frozen=True)
class Commands:
    """Creates the commands of one extension.

    Attributes:
        extension: the extension, without flags for architectures.
        cxx: the C++ compiler, which also links and is nvcc's host compiler.
        folder: the folder of outputs in the build folder.
        threads: the number of architectures that nvcc may compile at once.
        macros: additional macros: name and value.
    """

    extension: Extension
    inputs: ExtensionInputs
    cxx: Compiler
    layout: Layout
    folder: str
    threads: int
    macros: tuple[tuple[str, str | None], ...]

    @property
    def _toolkit(self) -> Toolkit | None:
        return self.inputs.toolkit if self.extension.uses_cuda else None

    @property
    def _system(self) -> str:
        return self.inputs.project.host.system

    @property
    def _settings(self) -> Settings:
        return self.inputs.project.settings

    @property
    def _msvc(self) -> bool:
        return self.cxx.kind == "msvc"

    @property
    def _object_suffix(self) -> str:
        return ".obj" if self._msvc else ".o"

    def compile(self, unit: Unit) -> Step:
        output = f"{self.folder}/{unit.name}{self._object_suffix}"
        # cl writes no such file: ninja reads the headers from its output (/showIncludes).
        depfile = None if self._msvc and unit.language is not Language.CUDA else f"{output}.d"
        compiling = self._msvc_compile if self._msvc else self._gnu_compile
        command = (self._nvcc_compile if unit.language is Language.CUDA else compiling)(unit, output)
        return Step(
            kind=_KINDS[unit.language],
            inputs=(unit.path, *(self.layout.spell(path) for path in self.extension.depends)),
            output=output,
            command=command,
            depfile=depfile,
            architectures=unit.architectures,
            sources=unit.sources,
        )

    def device_link(self, objects: Sequence[str], architectures: ArchitectureList) -> Step:
        """Create the step that links relocatable device code.

        Source: https://docs.nvidia.com/cuda/cuda-compiler-driver-nvcc (Using Separate Compilation in CUDA)
        """
        output = f"{self.folder}/device-link{self._object_suffix}"
        command = (
            self._nvcc_program(),
            *self._host_compiler(),
            "-dlink",
            *architectures.for_nvcc(),
            *self._host_flags(),
            *objects,
            *(f"-L{self.layout.spell(folder)}" for folder in self._library_dirs()),
            *(f"-l{name}" for name in self.extension.device_link_libraries),
            *("-o", output),
        )
        return Step(StepKind.DEVICE_LINK, tuple(objects), output, command, architectures=architectures)

    def flags(self) -> Flags:
        """The flags of C, C++ and linking, apart from file names."""
        search, libraries, given = (self._msvc_link_flags if self._msvc else self._gnu_link_flags)()
        return Flags(
            compile={language: self._compile_flags(language) for language in (Language.C, Language.CXX)},
            search=search,
            libraries=(*libraries, *given),
            rpath=() if self._msvc else tuple(self._run_path()),
            names=dict(self._link_names()),
        )

    def link(self, objects: Sequence[str], output: str) -> Step:
        maker = self._msvc_link if self._msvc else self._gnu_link
        return Step(StepKind.LINK, tuple(objects), output, maker(objects, output))

    # Flags that all compilers share

    def _requested_flags(self, language: Language) -> tuple[str, ...]:
        """The project's flags, then those of the user's environment."""
        from_variables = [
            word
            for name in _VARIABLES[language]
            for word in command_words(self._settings.env.get(name, ""), self._system)
        ]
        # The last of two contradicting flags wins, and that is to be the user's.
        return (*self.extension.flags.get(language, ()), *from_variables)

    def _link_flags(self) -> tuple[str, ...]:
        """The project's flags, then those of the user's environment."""
        from_variable = command_words(self._settings.env.get("LDFLAGS", ""), self._system)
        return (*self.extension.link_flags, *from_variable)

    def _compile_flags(self, language: Language) -> tuple[str, ...]:
        given = self._requested_flags(language)
        flags = flag_set("msvc" if self._msvc else "gnu")
        standard = (
            () if language is Language.C else flags.standard_flag(self.inputs.torch.cxx_standard, given)
        )
        macros = (macro.replace("-", "/", 1) if self._msvc else macro for macro in self._macro_flags())
        includes = self._msvc_includes() if self._msvc else self._gnu_includes()
        own = (*flags.for_sources(self._settings.build_type, given), *self._prefix_maps(), *standard)
        # The project's flags are last, so that they win over torchwheel's.
        return (*own, *macros, *includes, *given)

    def _link_names(self) -> Iterator[tuple[str, str]]:
        """The links in the build folder, and the fixed names of sources in them (``__FILE__``)."""
        if self.inputs.project.reproducible and not self._msvc:
            # The same in all extensions, because a compiler cache ignores differences of maps.
            for link in (SOURCE, TORCH, TOOLKIT):
                if spelled := self.layout.link(link):
                    yield spelled, f"/{link}"

    def _prefix_maps(self) -> Iterator[str]:
        yield from (f"-ffile-prefix-map={link}={name}" for link, name in self._link_names())

    def _nvcc_names(self, unit: Unit) -> tuple[str, ...]:
        """nvcc's options for a reproducible object: the source's name replaces its path."""
        naming = nvcc_naming(self._toolkit.version) if self._toolkit else None
        if naming is None or not self.inputs.project.reproducible or self._msvc:
            return ()
        source = self.layout.link(SOURCE)
        name = unit.path.removeprefix(f"{source}/").removeprefix(f"{self.folder}/")
        return naming.options_for(f"/{self.extension.name}/{name.lstrip('/')}")

    def _macro_flags(self) -> Iterator[str]:
        extension = self.extension
        yield from (
            f"-D{name}" if value is None else f"-D{name}={value}"
            for name, value in (*self.macros, *extension.define_macros)
        )
        yield f"-DTORCH_EXTENSION_NAME={extension.module}"
        # torch.utils.cpp_extension defines it, too: <torch/torch.h> then includes <torch/extension.h>.
        yield "-DTORCH_API_INCLUDE_EXTENSION_H"
        if extension.limited_api:
            yield f"-DPy_LIMITED_API={PY_LIMITED_API}"
        if self._system == "Windows" and is_free_threaded(self.inputs.project.host.python.abi_tag):
            # https://docs.python.org/3.14/howto/free-threading-extensions.html (Windows)
            yield "-DPy_GIL_DISABLED=1"
        if not self.inputs.torch.cxx11_abi and self._system == "Linux":
            yield "-D_GLIBCXX_USE_CXX11_ABI=0"
        # After all definitions, because compilers process -D and -U in their order.
        yield from (f"-U{name}" for name in extension.undef_macros)

    def _include_dirs(self, *, nvcc: bool = False) -> list[str]:
        """Header folders of others; the project's own precede them."""
        toolkit: tuple[str, ...] = ()
        if self._toolkit:
            # nvcc finds CUDA 13's include/cccl by itself; C++ compilers do not.
            toolkit = self._toolkit.include_dirs if nvcc else self._toolkit.cxx_include_dirs
        python = self.inputs.python
        own = python.include_dirs if nvcc else (*python.include_dirs, *python.cxx_include_dirs)
        folders = (*self.inputs.torch.include_dirs, *toolkit, *own)
        return list(dict.fromkeys(self.layout.spell(str(folder)) for folder in folders))

    def _library_dirs(self) -> list[str]:
        toolkit = (self._toolkit.library_dir,) if self._toolkit and self._toolkit.library_dir else ()
        return [
            *self.extension.library_dirs,
            *(str(folder) for folder in self.inputs.torch.library_dirs),
            *toolkit,
            *self.inputs.python.library_dirs,
            *(self.inputs.python.own_library_dirs if self._links_own_libraries else ()),
        ]

    @property
    def _links_own_libraries(self) -> bool:
        """Whether the project names libraries; without any, a module needs no folders of this machine."""
        named = any(flag.startswith("-l") for flag in self._link_flags())
        return bool(self.extension.libraries) or named

    def _torch_libraries(self) -> list[str]:
        """Libraries of PyTorch and CUDA, dependents first."""
        # torch_python is for one Python only, and a module with the limited API for all.
        names = [] if self.extension.wants_limited_api else ["torch_python"]
        if self._toolkit is not None:
            names += ["torch_cuda", "c10_cuda"]
        names += ["torch_cpu", "torch", "c10"]
        present = self.inputs.torch.libraries
        there = [name for name in names if not present or name in present]
        return [*there, *self._cuda_runtime()]

    def _cuda_runtime(self) -> tuple[str, ...]:
        """CUDA's runtime library: static if the module must run with PyTorch builds of any CUDA release."""
        if self._toolkit is None:
            return ()
        if self.extension.stable_abi is None:
            return ("cudart",)
        # Source: https://docs.nvidia.com/cuda/cuda-compiler-driver-nvcc (--cudart static)
        return ("cudart_static", "dl", "rt", "pthread") if self._system == "Linux" else ("cudart_static",)

    # GCC and Clang

    def _gnu_compile(self, unit: Unit, output: str) -> tuple[str, ...]:
        c = self.inputs.project.host.find_compiler("c") if unit.language is Language.C else None
        compiler = c or self.cxx
        return (
            compiler.path,
            *compiler.arguments,
            *self._compile_flags(unit.language),
            # -MMD leaves out system headers: a new environment has the same PyTorch with newer files.
            *("-MMD", "-MF", f"{output}.d"),
            *("-c", unit.path, "-o", output),
        )

    def _gnu_includes(self, *, nvcc: bool = False) -> Iterator[str]:
        """The project's folders with ``-I``, the others as system folders, whose headers give no warnings.

        nvcc then also tolerates conflicts of CUDA's headers with a newer glibc: see ``glibc-too-new-for-cuda``.
        """
        yield from (f"-I{self.layout.spell(folder)}" for folder in self.extension.include_dirs)
        for folder in self._include_dirs(nvcc=nvcc):
            # GCC's own #include_next needs its order: https://gcc.gnu.org/bugzilla/show_bug.cgi?id=70129
            if folder != "/usr/include":
                yield from ("-isystem", folder)

    def _gnu_link(self, objects: Sequence[str], output: str) -> tuple[str, ...]:
        flags = flag_set("gnu")
        darwin = self._system == "Darwin"
        # On macOS the interpreter provides Python's symbols only when it loads the module.
        shared = ("-bundle", "-undefined", "dynamic_lookup") if darwin else flags.link
        search, libraries, given = self._gnu_link_flags()
        return (
            *(self.cxx.path, *self.cxx.arguments),
            *shared,
            *(("-g",) if "-g" in flags.for_sources(self._settings.build_type) else ()),
            *("-o", output),
            *objects,
            *search,
            *libraries,
            *(f"-Wl,-rpath,{folder}" for folder in self._run_path()),
            *given,
        )

    def _gnu_link_flags(self) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        """Folders, libraries, and the flags of the project and the user."""
        torch = [f"-l{name}" for name in self._torch_libraries()]
        # PyTorch registers everything when it is imported, so unused libraries need not be loaded.
        if self._system != "Darwin":
            # The state is restored because the project's own libraries are linked as it asks.
            torch = ["-Wl,--push-state,--as-needed", *torch, "-Wl,--pop-state"]
        return (
            tuple(f"-L{self.layout.spell(folder)}" for folder in self._library_dirs()),
            (*(f"-l{name}" for name in self.extension.libraries), *torch),
            self._link_flags(),
        )

    def _run_path(self) -> list[str]:
        """The library folders of the installed module: beside it in site-packages, and the project's own."""
        origin = "@loader_path" if self._system == "Darwin" else "$ORIGIN"
        up = "/".join([".."] * self.extension.name.count("."))
        site_packages = f"{origin}/{up}" if up else origin
        packages = PurePosixPath(str(self.inputs.torch.site_packages))
        folders = (
            *self.inputs.torch.library_dirs,
            *(self.inputs.torch.nvidia_library_dirs if self._toolkit else ()),
        )
        pure = [PurePosixPath(str(folder)) for folder in folders]
        # Folders elsewhere are those of this machine, which a wheel must not name.
        inside = [folder.relative_to(packages) for folder in pure if folder.is_relative_to(packages)]
        return [
            *(f"{site_packages}/{folder}" for folder in inside),
            *(self.inputs.python.own_run_path if self._links_own_libraries else ()),
        ]

    # MSVC

    def _msvc_compile(self, unit: Unit, output: str) -> tuple[str, ...]:
        return (
            self.cxx.path,
            *self.cxx.arguments,
            *self._compile_flags(unit.language),
            *("/showIncludes", "/c"),
            # By the suffix alone cl treats only .cpp and .cxx as C++.
            f"{'/Tc' if unit.language is Language.C else '/Tp'}{unit.path}",
            f"/Fo{output}",
        )

    def _msvc_includes(self) -> Iterator[str]:
        yield from (f"/I{self.layout.spell(folder)}" for folder in self.extension.include_dirs)
        yield "/external:W0"
        yield from (f"/external:I{folder}" for folder in self._include_dirs())

    def _msvc_link(self, objects: Sequence[str], output: str) -> tuple[str, ...]:
        # By its folder, because PATH may have another link.exe, and the compiler may be spelled cl.EXE.
        linker = str(PureWindowsPath(self.cxx.path).with_name("link.exe"))
        search, libraries, given = self._msvc_link_flags()
        return (
            linker,
            *flag_set("msvc").link,
            f"/OUT:{output}",
            f"/IMPLIB:{self.folder}/{self.extension.module}.lib",
            f"/EXPORT:PyInit_{self.extension.module}",
            *objects,
            *search,
            *libraries,
            *(("/DEBUG",) if "/Z7" in flag_set("msvc").for_sources(self._settings.build_type) else ()),
            *given,
        )

    def _msvc_link_flags(self) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        """Folders, libraries, and the project's flags."""
        # The linker drops an unreferenced library: https://github.com/pytorch/pytorch/issues/31611
        keep = ("/INCLUDE:?warp_size@cuda@at@@YAHXZ",) if "torch_cuda" in self._torch_libraries() else ()
        names = (*self.extension.libraries, *self._torch_libraries())
        return (
            tuple(f"/LIBPATH:{self.layout.spell(folder)}" for folder in self._library_dirs()),
            (*(f"{name}.lib" for name in names), *(keep if not self.extension.stable_abi else ())),
            self.extension.link_flags,
        )

    # nvcc

    def _nvcc_compile(self, unit: Unit, output: str) -> tuple[str, ...]:
        given = self._requested_flags(Language.CUDA)
        flags = flag_set("nvcc")
        images = unit.options
        if unit.architectures and not images:
            shared = self.extension.front_end == "shared"
            images = shared_front_end(unit.architectures) if shared else unit.architectures.for_nvcc()
        return (
            self._nvcc_program(),
            *self._host_compiler(),
            *flags.for_sources(self._settings.build_type, given),
            *flags.standard_flag(self.inputs.torch.cxx_standard, given),
            *self._host_flags(),
            *(f"-Xcompiler={flag}" for flag in self._prefix_maps()),
            *self._nvcc_names(unit),
            *images,
            *self._threads_flag(len(images), given),
            *self._macro_flags(),
            *self._gnu_includes(nvcc=True),
            *given,
            *("-MMD", "-MF", f"{output}.d"),
            *("-c", unit.path, "-o", output),
        )

    def _threads_flag(self, passes: int, given: Sequence[str]) -> tuple[str, ...]:
        count = min(self.threads, passes)
        chosen = any(flag.startswith(("--threads", "-t=")) or flag == "-t" for flag in given)
        return (f"--threads={count}",) if count > 1 and not chosen else ()

    def _nvcc_program(self) -> str:
        if self._toolkit is None or self._toolkit.nvcc is None:
            raise ValueError(f"{self.extension.name} has CUDA sources but no nvcc")
        return self.layout.spell(self._toolkit.nvcc)

    def _host_compiler(self) -> tuple[str, ...]:
        """On Windows nvcc takes the environment's cl: ``--use-local-env``."""
        host = self.inputs.cuda_host or self.cxx
        return () if self._msvc else (f"-ccbin={host.path}",)

    def _host_flags(self) -> Iterator[str]:
        """The host compiler's flags, as nvcc passes them on."""
        if not self._msvc:
            host = self.inputs.cuda_host or self.cxx
            yield from (f"-Xcompiler={flag}" for flag in ("-fPIC", *host.arguments))
            return
        yield from flag_set("nvcc-windows").compile
        # With a space, nvcc on Windows reads a following word with / as a file.
        yield from (f"-Xcompiler={flag}" for flag in flag_set("msvc").compile if flag not in _NOT_FOR_NVCC)
