"""Having the CUDA toolkit of a plan that is made of PyPI's packages: installed once, put together once."""

from __future__ import annotations

from collections.abc import Mapping

from torchwheel.engine.installation import ensure_environment
from torchwheel.engine.venv import environment_folder
from torchwheel.errors import Problem, TorchwheelError
from torchwheel.plan.model import Plan
from torchwheel.survey import BuildRequest, cache_folder
from torchwheel.toolkit.pypi import assemble_toolkit, toolkits_folder


def install_packages(plan: Plan, request: BuildRequest) -> None:
    """Install the packages of a plan's toolkit in an environment that torchwheel keeps.

    Raises:
        TorchwheelError: the environment cannot be made, or the packages cannot be installed.
    """
    if plan.toolkit is not None:
        tag = plan.host.python.interpreter_tag
        install_release(plan.toolkit.version, plan.toolkit_requires, tag, request.environment)


def install_release(
    release: str, requires: tuple[str, ...], interpreter_tag: str, environment: Mapping[str, str]
) -> None:
    """Install PyPI's packages of a CUDA release in an environment that torchwheel keeps.

    It is one of its own: two releases cannot be in one environment, and a tree's requirements need not come along.

    Args:
        release: the release, ``"13.0"``.
        requires: the packages.
        interpreter_tag: of the Python that the environment is for.
        environment: the environment variables.

    Raises:
        TorchwheelError: the environment cannot be made, or the packages cannot be installed.
    """
    cache = cache_folder(environment)
    log = toolkits_folder(cache) / f"cuda-{release}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    print(f"torchwheel: installing CUDA {release} from PyPI: {' '.join(requires)}", flush=True)
    folder = environment_folder(cache, requires, interpreter_tag)
    ensure_environment(folder, requires, environment, log)


def assemble(plan: Plan, request: BuildRequest) -> None:
    """Put the toolkit of installed packages together, unless it is there already.

    Raises:
        TorchwheelError: it cannot be made, or the packages are not what they should be.
    """
    if plan.toolkit_packages is None:
        raise TorchwheelError(_not_found(plan))
    assemble_toolkit(plan.toolkit_packages, cache_folder(request.environment))


def _not_found(plan: Plan) -> Problem:
    return Problem(
        id="toolkit-packages-missing",
        what=f"{' '.join(plan.toolkit_requires)} is installed, but some of NVIDIA's packages are missing",
        remedy="delete torchwheel's folder of environments and build again, or name an installed toolkit with "
        "-C cuda-path=",
    )
