"""The environment variables of a plan's inner build."""

from __future__ import annotations

from collections.abc import Iterable

from torchwheel.host.jobs import Jobs
from torchwheel.host.model import Host
from torchwheel.plan.cuda import HOME_VARIABLES, ToolkitChoice
from torchwheel.plan.forwarding import Forwarding, environment_text
from torchwheel.plan.model import Define, Variable
from torchwheel.plan.version import WheelVersion
from torchwheel.settings import Layer, Settings

_LAST_BUILD_NUMBER_WITHOUT_POST = "1"


def variables_for(
    settings: Settings,
    host: Host,
    forwarding: Forwarding,
    defines: Iterable[Define],
    choice: ToolkitChoice | None,
    version: WheelVersion,
    jobs: Jobs,
) -> tuple[Variable, ...]:
    """All variables that the inner build is given, sorted by name."""
    variables: dict[str, Variable] = {}
    for variable in (
        *_jobs(settings, forwarding, jobs),
        *_version(version),
        *_cuda(host, choice),
        *_options(forwarding, defines),
        *_asked_for(settings),
    ):
        variables[variable.name] = variable
    return tuple(variables[name] for name in sorted(variables))


def _asked_for(settings: Settings) -> Iterable[Variable]:
    for name, setting in settings.variables.items():
        yield Variable(name, str(setting.value), setting.layer, setting.origin)


def _options(forwarding: Forwarding, defines: Iterable[Define]) -> Iterable[Variable]:
    for define in defines:
        if forwarding.by_environment(define.name):
            value = environment_text(define.value)
            yield Variable(define.name, value, define.layer, define.origin, identity=False)


def _cuda(host: Host, choice: ToolkitChoice | None) -> Iterable[Variable]:
    if choice is None or choice.toolkit is None:
        return
    toolkit, layer, origin = choice.toolkit, choice.layer, choice.origin
    for name in HOME_VARIABLES:
        yield Variable(name, toolkit.root, layer, origin, identity=False)
    if toolkit.nvcc is not None:
        yield Variable("CUDACXX", toolkit.nvcc, layer, origin, identity=False)
    yield Variable("PATH", toolkit.bin_dir, layer, origin, prepend=True, identity=False)
    if host.system == "Linux" and toolkit.library_dir is not None:
        yield Variable("LD_LIBRARY_PATH", toolkit.library_dir, layer, origin, prepend=True, identity=False)


def _version(version: WheelVersion) -> Iterable[Variable]:
    yield Variable("PYTORCH_BUILD_VERSION", str(version), Layer.DEFAULT, version.base_origin, identity=False)
    yield Variable(
        "PYTORCH_BUILD_NUMBER",
        _LAST_BUILD_NUMBER_WITHOUT_POST,
        Layer.DEFAULT,
        "a higher one would become part of the local label",
        identity=False,
    )


def _jobs(settings: Settings, forwarding: Forwarding, jobs: Jobs) -> Iterable[Variable]:
    setting = settings.get("jobs")
    layer, origin = (setting.layer, setting.origin) if setting else (Layer.DEFAULT, jobs.reason)
    yield Variable("MAX_JOBS", str(jobs.max_jobs), layer, origin, identity=False)
    # setup.py would hand every CMAKE_ variable on as an option, and CMake then warns that nothing reads it.
    if not forwarding.by_environment("CMAKE_BUILD_PARALLEL_LEVEL"):
        yield Variable("CMAKE_BUILD_PARALLEL_LEVEL", str(jobs.max_jobs), layer, origin, identity=False)
    if jobs.flash_attention is not None:
        yield Variable(
            "FLASH_ATTENTION_MAX_JOBS", str(jobs.flash_attention), Layer.DEFAULT, jobs.reason, identity=False
        )
