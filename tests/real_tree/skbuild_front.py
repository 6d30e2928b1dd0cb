"""The real PyTorch 2.6.0 tree with a front of 2.14's generation: scikit-build-core in place of setup.py.

No source of 2.14 can be had where these tests run, so its build system is put on the sources of 2.6.0, by the rules of
2.14: a pyproject.toml with providers of its metadata, a CMake file that reads the environment, and CMake targets for
what setup.py compiled and copied itself. The files of the front are this repository's own, in ``skbuild_front`` and
``examples/minitorch``; of upstream's there are only the places that change, as patterns.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from debian_root import SYSTEM, TREE, prepare

from debian_system import REPOSITORY, DebianSystem

FRONT_TREE = "/src/pytorch-skbuild"
"""The tree's place as seen from inside."""

_FRONT = Path(__file__).with_name("skbuild_front")
_MINITORCH = REPOSITORY / "examples/minitorch"
_FILES = (
    (_FRONT / "pyproject.toml", "pyproject.toml"),
    (_FRONT / "version.py", "tools/metadata/version.py"),
    (_FRONT / "dependencies.py", "tools/metadata/dependencies.py"),
    (_FRONT / "FileMirroring.cmake", "cmake/FileMirroring.cmake"),
    (_FRONT / "PythonModules.cmake", "cmake/PythonModules.cmake"),
    (_MINITORCH / "cmake/EnvVarForwarding.cmake", "cmake/EnvVarForwarding.cmake"),
    (_MINITORCH / "cmake/forward_environment.py", "cmake/forward_environment.py"),
)

_EDITS = (
    # The environment comes before the options: it decides most of them.
    (
        "CMakeLists.txt",
        r"(?m)^# ---\[ Utils\ninclude\(cmake/public/utils\.cmake\)\n",
        r"\g<0>include(cmake/EnvVarForwarding.cmake)\ninclude(cmake/FileMirroring.cmake)\n",
    ),
    (
        "CMakeLists.txt",
        r"(?m)^if\(BUILD_FUNCTORCH\)\n  add_subdirectory\(functorch\)\nendif\(\)\n",
        r"\g<0>include(cmake/PythonModules.cmake)\n",
    ),
    # It went into the source tree, for setup.py to copy.
    ("functorch/CMakeLists.txt", r"(?m)^install\(TARGETS [^\n]*\n?", ""),
    # In an editable install Python's files are the tree's, and libraries and programs lie where torch is installed.
    (
        "torch/__init__.py",
        r'(?m)^    global_deps_lib_path = os\.path\.join\(os\.path\.dirname\(here\), "lib", lib_name\)\n',
        r"\g<0>"
        "    if not os.path.exists(global_deps_lib_path):\n"
        "        from importlib.metadata import distribution\n\n"
        '        global_deps_lib_path = str(distribution("torch").locate_file(f"torch/lib/{lib_name}"))\n',
    ),
    (
        "torch/_utils_internal.py",
        r"(?m)^        torch_parent = os\.path\.dirname\(os\.path\.dirname\(__file__\)\)\n",
        r"\g<0>"
        '        if not os.path.isdir(os.path.join(torch_parent, "torch", "bin")):\n'
        "            from importlib.metadata import distribution\n\n"
        '            torch_parent = str(distribution("torch").locate_file(""))\n',
    ),
    # setuptools is not among what 2.14 asks for.
    ("tools/generate_torch_version.py", r"(?m)^from setuptools import distutils.*\n", ""),
    ("tools/generate_torch_version.py", r"type=distutils\.util\.strtobool", 'type=lambda text: text == "1"'),
)
"""File, pattern, replacement."""


def make(folder: str = FRONT_TREE, system: DebianSystem = SYSTEM) -> Path:
    """Make the tree anew in a folder; the tree that it comes from is not touched.

    Args:
        folder: as seen from inside.
        system: the one that holds the real tree.

    Returns:
        The folder as this machine sees it.
    """
    prepare(system)
    tree = system.outside(folder)
    shutil.rmtree(tree, ignore_errors=True)
    tree.parent.mkdir(parents=True, exist_ok=True)
    system.enter(["cp", "-a", "--reflink=auto", TREE, folder])
    for name in ("setup.py", "MANIFEST.in", "tools/build_pytorch_libs.py", "tools/setup_helpers/cmake.py"):
        path = tree / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for source, name in _FILES:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, tree / name)
    for name, pattern, replacement in _EDITS:
        text, count = re.subn(pattern, replacement, (tree / name).read_text(encoding="utf-8"))
        assert count == 1, f"{name}: {pattern} matched {count} times"
        (tree / name).write_text(text, encoding="utf-8")
        # Made again, the tree is as old as before.
        shutil.copystat(system.outside(TREE) / name, tree / name)
    return tree


if __name__ == "__main__":
    print(make())
