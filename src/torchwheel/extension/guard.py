"""A check for packages, before they import their extension modules: whether the installed PyTorch is the right one."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, requires, version

from packaging.requirements import Requirement

from torchwheel.reporting.errors import Problem


def require_torch(name: str) -> None:
    """Check that an installed distribution is built for the installed PyTorch.

    Loading a module with another PyTorch fails with only a symbol's name, or without any reason.

    Args:
        name: the distribution's name in pip.

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
