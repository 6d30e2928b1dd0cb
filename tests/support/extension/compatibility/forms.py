"""Generated setup.py files: every owner of flags in every place, and every class of extension with every command."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from textwrap import indent

_HEAD = """\
import os
from setuptools import Extension, setup
from torch.utils import cpp_extension
from torch.utils.cpp_extension import BuildExtension, CUDAExtension, CppExtension, include_paths
"""
_CFLAGS = '["-O1", "-DA=\\"a b\\"", "-UB", "-I/opt/flag", "-DTORCH_EXTENSION_NAME=other", "-std=c++20"]'
_NVCC = '["-O2", "-DA=2", "-U__CUDA_NO_HALF_CONVERSIONS__", "-t", "1", "-maxrregcount=64", "--expt-extended-lambda"]'
_TABLE = f'{{"cxx": {_CFLAGS}, "nvcc": {_NVCC}}}'
_ATTRIBUTES = {
    "include_dirs": '["b", "/opt/i", os.path.abspath("with blank")]',
    "define_macros": '[("M", None), ("N", "1"), ("TORCH_EXTENSION_NAME", "mine")]',
    "undef_macros": '["U", "__CUDA_NO_HALF_OPERATORS__"]',
    "libraries": '["m", "c10"]',
    "library_dirs": '["lib"]',
    "extra_link_args": '["-Wl,-z,now", "-lflag", "-L/opt/flag"]',
    "depends": '["inc/h.h", "inc/missing.h"]',
}
_PAIR = "CUDAExtension('f', ['a.cpp', 'k.cu']{}), CppExtension('p.g', ['b/a.cpp']{})"
_CONFIGURED = {
    "define": "OF_OPTION,A",
    "undef": "UNDEF_OPTION",
    "include_dirs": "/opt/option",
    "libraries": "option",
    "library_dirs": "/opt/option",
}
_OF_COMPILER = """\
self.compiler.define_macro("OF_COMPILER", "1")
self.compiler.undefine_macro("NOT_OF_COMPILER")
self.compiler.add_include_dir("/opt/compiler")
self.compiler.add_library("compiler")
self.compiler.add_library_dir("/opt/compiler")
self.compiler.compiler_so += ["-DOF_COMMAND"]
self.compiler.set_executable("linker_so", [*self.compiler.linker_so, "-lcommand"])
"""
_OF_VARIABLES = {
    "CFLAGS": "-DOF_CFLAGS -O1",
    "CPPFLAGS": "-DOF_CPPFLAGS",
    "LDFLAGS": "-Wl,-z,now",
    "NVCC_APPEND_FLAGS": "-DAPPENDED",
    "TORCH_CUDA_ARCH_LIST": "8.0;9.0a;12.0+PTX",
}
_OTHER_ARCHITECTURES = (
    '["-gencode", "arch=compute_80,code=sm_80"]', '["-gencode=arch=compute_90a,code=sm_90a"]', '["-arch=sm_90"]',
    '["-arch=compute_80", "-code=sm_80,sm_86"]', '["-DSEARCH"]',
)  # fmt: skip
_CLASSES = """\
class Own(Extension):
    pass

paths = dict(include_dirs=include_paths(), library_dirs=cpp_extension.library_paths(), language="c++")
extensions = [
    CUDAExtension("cuda", ["a.cpp", "k.cu"], extra_compile_args={"nvcc": ["-DX"]}),
    CUDAExtension("p.only_cpp", ["b/a.cpp"], extra_compile_args=["-O1"]),
    CppExtension("cpp", ["c.c", "d.cc", "e.cxx"], optional=True, export_symbols=["x"]),
    CppExtension("limited", ["b/a.cpp"], py_limited_api=True),
    Extension("plain", ["b/a.cpp"], libraries=["c10", "torch"], **paths),
    Extension("p.plain_cuda", ["k.cu", "b/k.cu"], extra_compile_args={"cxx": [], "nvcc": ["-DX"]}, **paths),
    Own("own", ["a.cpp"], extra_compile_args={"cxx": ["-O1"], "nvcc": []}, **paths),
    Extension("nothing_of_torch", ["c.c"]),
]
"""
_METHODS = {
    "build_extensions": (
        "self.extensions[0].extra_compile_args.setdefault('cxx', []).append('-DX=1')\n"
        "self.extensions[1].define_macros.append(('Y', '3'))\n"
    ),
    "build_extension": "args[0].define_macros.append(('N', args[0].name))\n",
    "run": "open('gen.cpp', 'w').write('')\nself.extensions[0].sources.append('gen.cpp')\n",
    "finalize_options": "self.undef = 'UNDEF'\n",
    "get_ext_filename": "assert args\n",
}


def _setup(extensions: str, command: str = "BuildExtension", **options: object) -> str:
    given = "".join(f", {name}={value!r}" for name, value in options.items())
    words = f'name="forms", version="1", packages=[], cmdclass={{"build_ext": {command}}}{given}'
    return f"setup(ext_modules=[{extensions}], {words})\n"


def _subclass(method: str, text: str) -> str:
    body = f"{text}return super().{method}(*args)\n"
    return f"class B(BuildExtension):\n    def {method}(self, *args):\n{indent(body, ' ' * 8)}\n"


def _places() -> Iterator[tuple[str, str]]:
    """Every owner of flags, in one place after the other."""
    attributes = "".join(f", {name}={value}" for name, value in _ATTRIBUTES.items())
    yield "arguments", _setup(_PAIR.format(attributes, attributes))
    yield "a list of flags", _setup(_PAIR.format(*[f", extra_compile_args={_CFLAGS}"] * 2))
    yield "a table of flags", _setup(_PAIR.format(*[f", extra_compile_args={_TABLE}"] * 2))
    lines = [f"for e in extensions:\n    e.{name} += {value}\n" for name, value in _ATTRIBUTES.items()]
    yield "attributes", f"extensions = [{_PAIR.format('', '')}]\n{''.join(lines)}" + _setup("*extensions")
    text = "[build_ext]\n" + "".join(f"{name} = {value}\n" for name, value in _CONFIGURED.items())
    yield "setup.cfg", f"open('setup.cfg', 'w').write({text!r})\n" + _setup(_PAIR.format("", ""))
    yield "options of setup", _setup(_PAIR.format("", ""), options={"build_ext": _CONFIGURED})
    words = [f"--{name.replace('_', '-')}={value}" for name, value in _CONFIGURED.items()]
    yield "command line", f"import sys\nsys.argv += {words!r}\n" + _setup(_PAIR.format("", ""))
    yield "compiler", _subclass("build_extensions", _OF_COMPILER) + _setup(_PAIR.format("", ""), "B")
    yield "variables", f"os.environ.update({_OF_VARIABLES!r})\n" + _setup(_PAIR.format("", ""))
    for name in ("CC", "CXX"):
        program = {"CC": "gcc", "CXX": "g++"}[name]
        yield name, f"os.environ[{name!r}] = {program!r}\n" + _setup(_PAIR.format("", ""))
    for flags in _OTHER_ARCHITECTURES:
        extension = (
            f"CUDAExtension('f', ['a.cpp', 'k.cu'], extra_compile_args={{'cxx': [], 'nvcc': {flags}}})"
        )
        yield f"architectures {flags}", _setup(extension)
    linked = (
        "dlink=True, dlink_libraries=['cudadevrt'], extra_compile_args={'cxx': [], 'nvcc': ['-rdc=true']}"
    )
    yield "device link", _setup(f"CUDAExtension('f', ['a.cpp', 'k.cu'], {linked})")


def _commands() -> Iterator[tuple[str, str]]:
    """Every class of extension, by one command after the other."""
    for name in (
        "BuildExtension", "BuildExtension.with_options(use_ninja=False)",
        "BuildExtension.with_options(no_python_abi_suffix=True)",
    ):  # fmt: skip
        # One by one setuptools' compiler takes no CUDA source of a plain extension.
        extensions = "extensions" if "ninja" not in name else "extensions[:4]"
        yield name, _CLASSES + _setup(f"*{extensions}", name)
    for method, text in _METHODS.items():
        yield f"an own {method}", _CLASSES + _subclass(method, text) + _setup("*extensions", "B")


@cache
def setup_py_forms() -> Mapping[str, str]:
    """Name -> the text of a setup.py."""
    forms = {f"{name}": f"{_HEAD}{text}" for name, text in (*_places(), *_commands())}
    return {**forms, **_SPECIAL}


_SPECIAL = {
    "flags for all CUDA sources are changed": f"""{_HEAD}
cpp_extension.COMMON_NVCC_FLAGS.remove("-D__CUDA_NO_HALF_OPERATORS__")
cpp_extension.COMMON_NVCC_FLAGS = [*cpp_extension.COMMON_NVCC_FLAGS, "-DFOR_ALL"]
{_setup(_PAIR.format("", ""))}""",
    "the function that writes the ninja file is wrapped": f"""{_HEAD}
write = cpp_extension._write_ninja_file
def wrapped(*args, **values):
    values["cuda_post_cflags"] = [*values["cuda_post_cflags"], "-DWRAPPED"]
    return write(*args, **values)
cpp_extension._write_ninja_file = wrapped
{_setup("CUDAExtension('f', ['a.cpp', 'k.cu'])")}""",
    "architectures are set for each extension": f"""{_HEAD}
class B(BuildExtension):
    def build_extension(self, ext):
        os.environ["TORCH_CUDA_ARCH_LIST"] = {{"f": "8.0", "g": "9.0a"}}[ext.name]
        super().build_extension(ext)
{_setup("CUDAExtension('f', ['a.cpp', 'k.cu']), CUDAExtension('g', ['b/k.cu'])", "B")}""",
    "a variable of PyTorch's build": f"""{_HEAD}
os.environ.update(DEBUG="1", CMAKE_BUILD_TYPE="Debug", USE_CUDA="0", CMAKE_ARGS="-DCMAKE_BUILD_TYPE=Debug")
{_setup("CUDAExtension('f', ['a.cpp', 'k.cu'])")}""",
    "CUDA_HOME is assigned": f"""{_HEAD}
home = os.path.abspath("toolkit")
os.symlink(os.environ.pop("CUDA_HOME"), home)
folders = os.environ["PATH"].split(os.pathsep)
os.environ["PATH"] = os.pathsep.join(one for one in folders if not os.path.exists(one + "/nvcc"))
cpp_extension.CUDA_HOME = home
{_setup(_PAIR.format("", ""))}""",
    "a command without setup": f"""{_HEAD}
from setuptools import Distribution
command = BuildExtension(Distribution({{"name": "forms", "ext_modules": [CUDAExtension("f", ["a.cpp", "k.cu"])]}}))
command.inplace = True
command.ensure_finalized()
command.run()
""",
    "paths": f"""{_HEAD}
from pathlib import Path
{
        _setup('''
    CUDAExtension("f", ["with blank/a b.cpp", os.path.abspath("k.cu")], include_dirs=[Path("inc")]),
    CUDAExtension("g", ["b/../a.cpp", "../outside/o.cu", "b/k.cu", "../outside/q.cpp"]),
''')
    }""",
}
