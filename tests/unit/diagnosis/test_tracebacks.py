# ruff: noqa: RUF001 - logs as they were printed.
"""What the frames above an exception say: whose code raised it, who called it, and what was being built."""

from __future__ import annotations

import pytest

from torchwheel.diagnosis.failures import Recognised
from torchwheel.diagnosis.scanner import diagnose

SITE = "/v/lib/python3.12/site-packages"


def cause_of(*frames: tuple[str, str], error: str, before: str = "") -> Recognised:
    """The cause in a traceback of these files and their lines of code."""
    shown = "".join(f'  File "{file}", line 7, in f\n    {source}\n' for file, source in frames)
    log = f"{before}Traceback (most recent call last):\n{shown}{error}\n"
    cause = diagnose([log.encode()]).cause
    assert cause is not None
    return cause


def commands(cause: Recognised) -> str:
    """The commands of the first fix."""
    return " ".join(cause.change[0].split("`")[1::2])


@pytest.mark.parametrize(
    ("frames", "error", "id", "known"),
    [
        # A name that another package does not have.
        (
            [("/w/run.py", "import flash_attn"), (f"{SITE}/flash_attn/a.py", "torch.library.wrap_triton(k)")],
            "AttributeError: module 'torch.library' has no attribute 'wrap_triton'",
            "python-name-missing",
            {"raised_in": "flash-attn", "caller": "/w/run.py", "distribution": "torch", "python": "3.12"},
        ),
        (
            [("/w/setup.py", "torch.utils.cpp_extension.BuildExtension")],
            "AttributeError: module 'torch.utils' has no attribute 'cpp_extension'",
            "python-name-missing",
            {"submodule": "yes"},
        ),
        # The module that says what it lacks is not the one that asks.
        (
            [(f"{SITE}/chromadb/a.py", "np.float_"), (f"{SITE}/numpy/__init__.py", "raise AttributeError(")],
            "AttributeError: `np.float_` was removed in the NumPy 2.0 release. Use `np.float64` instead.",
            "python-name-missing",
            {"raised_in": "chromadb", "since": "2", "module": "NumPy"},
        ),
        # A call that torch only passes on.
        (
            [
                (f"{SITE}/transformers/a.py", "m(x)"),
                (f"{SITE}/torch/nn/modules/module.py", "return forward_call(*args, **kwargs)"),
            ],
            "TypeError: LlamaModel.forward() got an unexpected keyword argument 'cache_position'",
            "call-unfit",
            {"raised_in": "transformers"},
        ),
        (
            [("/w/setup.py", "import sys, imp")],
            "ModuleNotFoundError: No module named 'imp'",
            "python-library-unfit",
            {"gone": "imp", "removed": "yes"},
        ),
        (
            [(f"{SITE}/colorclass/codes.py", "from collections import Mapping")],
            "ImportError: cannot import name 'Mapping' from 'collections' (/l/python3.12/collections/__init__.py)",
            "python-library-unfit",
            {"gone": "collections.Mapping", "raised_in": "colorclass", "removed": "yes"},
        ),
        (
            [(f"{SITE}/vllm/a.py", "from typing import Self")],
            "ImportError: cannot import name 'Self' from 'typing' (/usr/lib/python3.10/typing.py)",
            "python-library-unfit",
            {"gone": "typing.Self", "raised_in": "vllm", "removed": None, "optional": None},
        ),
        (
            [("/l/python3.12/ctypes/__init__.py", "from _ctypes import Union")],
            "ModuleNotFoundError: No module named '_ctypes'",
            "python-library-unfit",
            {"gone": "_ctypes", "optional": "yes"},
        ),
        (
            [("/w/a.py", "import torch"), (f"{SITE}/torch/_torch_docs.py", "add_docstr(torch.potrs,")],
            "AttributeError: module 'torch' has no attribute 'potrs'",
            "installation-damaged",
            {"module": "torch"},
        ),
        (
            [(f"{SITE}/torch/serialization.py", "from typing_extensions import TypeAlias")],
            "ValueError: source code string cannot contain null bytes",
            "installation-damaged",
            {"module": "typing_extensions"},
        ),
        (
            [("setup.py", "report('at ' + CUDNN_LIBRARY)")],
            'TypeError: can only concatenate str (not "NoneType") to str',
            "value-unset",
            {"variable": "CUDNN_LIBRARY"},
        ),
        (
            [("/w/utils/torch.py", "from torch import stack")],
            "ImportError: cannot import name 'stack' from partially initialized module 'torch' "
            "(most likely due to a circular import) (/w/utils/torch.py)",
            "python-name-missing",
            {"shadow": "/w/utils/torch.py"},
        ),
        (
            [("/w/setup.py", "open('requirements.txt')")],
            "FileNotFoundError: [Errno 2] No such file or directory: 'requirements.txt'",
            "file-missing",
            {"setup": "yes", "relative": "yes"},
        ),
        (
            [("/w/a.py", "c.generate()"), (f"{SITE}/vllm/a.py", "self.x[0]"), ("<frozen os>", "y")],
            "KeyError: 'x'",
            "python-exception",
            {"raised_in": "vllm", "caller": "/w/a.py", "at": f"{SITE}/vllm/a.py:7", "source": "self.x[0]"},
        ),
    ],
)
def test_class_and_captures(
    frames: list[tuple[str, str]], error: str, id: str, known: dict[str, str | None]
) -> None:
    cause = cause_of(*frames, error=error)
    assert cause.entry.id == id
    assert {name: cause.captures.get(name) for name in known} == known


@pytest.mark.parametrize(
    ("before", "file", "building", "release"),
    [
        ("Collecting demo\n  Using cached demo-10.3.0.tar.gz (46 MB)\n", "<string>", "demo", "demo 10.3.0"),
        ("  x Failed to build `demo==1.4.2`\n", "<string>", "demo", "demo 1.4.2"),
        ("", f"/tmp/pip-install-a1/demo_{'0' * 32}/setup.py", "demo", "demo"),
    ],
)
def test_what_is_built_is_the_cause_of_an_exception_in_its_setup(
    before: str, file: str, building: str, release: str
) -> None:
    build = (f"{SITE}/pip/_vendor/pyproject_hooks/_in_process/_in_process.py", "main()")
    cause = cause_of(build, (file, "x"), error="KeyError: '__version__'", before=before)
    assert (cause.entry.id, cause.captures["building"], cause.known["building_here"]) == (
        "setup-failed",
        building,
        release,
    )
    assert commands(cause) == "pip install -U demo pip install --only-binary :all: demo"


def test_an_exception_that_nothing_is_known_of_keeps_the_general_answer() -> None:
    cause = diagnose([b"KeyError: 'x'\n"]).cause
    assert cause is not None
    assert cause.entry.id == "python-exception"
    assert {"at", "raised_in", "setup"}.isdisjoint(cause.captures)


@pytest.mark.parametrize(
    ("error", "id"),
    [
        ("TypeError: no", "setup-failed"),
        ("ModuleNotFoundError: No module named 'foo'", "python-module-missing"),
        ("Problem with the CMake installation, aborting build. CMake executable is cmake", "program-broken"),
    ],
)
def test_the_error_below_a_long_traceback_in_what_pip_passes_on_is_the_cause(error: str, id: str) -> None:
    frames = "".join(
        f'    File "{SITE}/setuptools/x{n}.py", line {n}, in run\n      self.run()\n' for n in range(40)
    )
    log = (
        "  × python setup.py bdist_wheel did not run successfully.\n  ╰─> [84 lines of output]\n"
        f'  Traceback (most recent call last):\n    File "<pip-setuptools-caller>", line 34, in <module>\n'
        f"{frames}  {error}\n  [end of output]\n\n"
        "  note: This error originates from a subprocess, and is likely not a problem with pip.\n"
        "  ERROR: Failed building wheel for x\nERROR: Could not build wheels for x\n"
    )
    cause = diagnose([log.encode()]).cause
    assert cause is not None
    assert (cause.entry.id, cause.line.text.strip()) == (id, error)
