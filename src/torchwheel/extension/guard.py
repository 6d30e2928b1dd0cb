"""A check that a package can make before it imports its extension modules: whether this is the PyTorch they need."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, requires, version

from packaging.requirements import Requirement

from torchwheel.errors import Problem


def require_torch(name: str) -> None:
    """See that the installed PyTorch is one that an installed distribution is built for.

    Loading a module beside another PyTorch fails with a symbol's name, or says nothing more than that it failed.

    Args:
        name: the distribution's name, as pip knows it.

    Raises:
        ImportError: it is not; both versions are in the text.
    """
    wanted = [one for text in requires(name) or () if (one := Requirement(text)).name == "torch"]
    try:
        installed = version("torch")
    except PackageNotFoundError:
        installed = ""
    for one in wanted:
        applies = one.marker is None or one.marker.evaluate({"extra": ""})
        if applies and not (installed and one.specifier.contains(installed, prereleases=True)):
            problem = Problem.of(
                "wheel-for-another-torch" if installed else "wheel-for-another-torch/missing",
                name=name,
                version=version(name),
                torch=one.specifier,
                installed=installed,
            )
            raise ImportError(problem.render(), name="torch")
