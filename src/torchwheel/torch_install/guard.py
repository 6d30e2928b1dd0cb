"""A check for packages, before they import their extension modules: whether the installed PyTorch is the right one."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path

from packaging.requirements import Requirement

from torchwheel.reporting.errors import Problem

# The major version, which has one ABI: cu130 is CUDA 13.
_CUDA = re.compile(r"[+.]cu(\d+)\d(?:\.|$)")
_STATED_CUDA = re.compile(rb"^cuda\b[^=\n]*=\s*['\"](\d+)", re.MULTILINE)


def require_torch(name: str) -> None:
    """Check that an installed distribution is built for the installed PyTorch.

    Loading a module with another PyTorch fails with only a symbol's name, or without any reason.

    Raises:
        ImportError: it is not; the text has both versions.
    """
    wanted = [one for text in requires(name) or () if (one := Requirement(text)).name == "torch"]
    try:
        installed = version("torch")
    except PackageNotFoundError:
        installed = ""
    for one in wanted:
        applies = one.marker is None or one.marker.evaluate({"extra": ""})
        # Otherwise a range that names no pre-release would exclude every nightly.
        if applies and not (installed and one.specifier.contains(installed, prereleases=True)):
            problem = Problem.of(
                "wheel-for-another-torch" if installed else "wheel-for-another-torch/missing",
                name=name,
                version=version(name),
                torch=one.specifier,
                installed=installed,
            )
            raise ImportError(problem.render(), name="torch")
    if installed:
        _require_cuda(name)


def _require_cuda(name: str) -> None:
    own = version(name)
    needed, spec = _CUDA.search(own), find_spec("torch")
    if needed is None or spec is None or spec.origin is None:
        return
    try:
        source = Path(spec.origin).with_name("version.py").read_bytes()
    except OSError:
        return
    stated = _STATED_CUDA.search(source)
    cuda = stated[1].decode() if stated else ""
    # With the stable ABI the runtime is linked into the modules, and the label names no PyTorch.
    if cuda and (".torch" not in own or cuda == needed[1]):
        return
    problem = Problem.of(
        "wheel-for-another-torch/cuda", name=name, version=own, cuda=needed[1], found=cuda or "no CUDA"
    )
    raise ImportError(problem.render(), name="torch")
