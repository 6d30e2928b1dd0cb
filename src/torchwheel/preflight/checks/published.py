"""Whether building is needed at all, and what published builds say of a combination that is built."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torchwheel.hardware.arch import HowItRuns, judge_code
from torchwheel.hardware.architecture import TURING, Architecture
from torchwheel.plan.build_plan import Plan
from torchwheel.plan.output import is_only_how
from torchwheel.preflight.facts import HostFacts, is_l4t
from torchwheel.preflight.registry import (
    OFFICIAL_INDEX,
    Answer,
    Context,
    Passed,
    Violation,
    checks_machine,
    known_pytorch,
    require_known,
)
from torchwheel.pytorch.releases import (
    PublishedBuild,
    PytorchRelease,
    RunningBuild,
    included_options,
    index_is_known,
    official_wheels_install,
    published_builds,
    published_builds_that_run,
    read_releases,
)
from torchwheel.reporting.terminal import join_items
from torchwheel.settings import Layer, Setting
from torchwheel.toolkit.cuda_releases import needed_driver
from torchwheel.toolkit.cuda_toolkit import in_range
from torchwheel.versions import at_least

_ID = "need-not-build"
_GOOD_ENOUGH = (HowItRuns.NATIVE, HowItRuns.FAMILY, HowItRuns.MINOR_VERSION)


@checks_machine(_ID)
def need_not_build(context: Context) -> Answer:
    """An official build runs on the target natively, or by minor-version compatibility."""
    cpu, wanted = _without_cuda(context), _target_capabilities(context)
    skipped = _ID in context.plan.settings.skip_check
    if skipped or context.gpu_elsewhere is not None or not (wanted or cpu):
        return None
    release = known_pytorch(context)
    if not require_known(official_wheels_install(release, context.machine), "the C library"):
        return Passed()
    if best := official_build(context):
        if _lacks_requested(context.plan, best.build):
            return None
        gains = [*_describe_gains(context.plan, best), *_own_or_changed(context.plan, best.build)]
        gpus = "the CPU" if cpu else _gpu_names(context)
        values = {"version": release.version, "gpus": gpus, "gains": "; ".join(gains)}
        return Violation({**values, **_describe_build(context, best)}, nearest=best.build.command)
    # If only the driver is too old, building does not help either.
    if cpu or _find_best(context, with_driver=False):
        return None
    return Passed() if _are_builds_known(context, release) else OFFICIAL_INDEX


@checks_machine("newer-driver-instead")
def newer_driver(context: Context) -> Answer:
    release, machine, driver = context.pytorch, context.machine, context.host.driver
    if release is None or not driver or _find_best(context, with_driver=True):
        return None
    best = _find_best(context, with_driver=False)
    if best is None or best.verdict is None or not official_wheels_install(release, machine):
        return None
    needed = needed_driver(best.build.cuda, best.verdict.gpu, machine.system)
    if needed is None or _lacks_requested(context.plan, best.build):
        return None
    values = {"version": release.version, "gpus": _gpu_names(context), "driver": driver}
    return Violation({**values, **_describe_build(context, best)}, nearest=needed)


@checks_machine("last-official-build")
def last_build(context: Context) -> Answer:
    release, best = context.pytorch, last_official_build(context)
    if release is None or best is None or context.plan.architectures is None:
        return None
    if not official_wheels_install(release, context.machine):
        return None
    values = {
        "gpus": _gpu_names(context),
        "wanted": f"PyTorch {release.version}",
        "cuda": release.cuda.before_turing or str(best.build.cuda),
        "version": best.build.torch,
    }
    return Violation({**values, **_describe_build(context, best)}, best.build.command)


def last_official_build(context: Context) -> RunningBuild | None:
    """The newest earlier official build that runs on a GPU before Turing, where none of the release does."""
    release = context.pytorch
    if release is None or all(one >= TURING for one in _target_capabilities(context)):
        return None
    if _find_best(context, with_driver=False) or not _are_builds_known(context, release):
        return None
    versions = read_releases().versions
    older = map(read_releases().release, reversed(versions[: versions.index(release.version)]))
    found = (_find_best(context, with_driver=False, release=one) for one in older)
    return next(filter(None, found), None)


def _describe_build(context: Context, running: RunningBuild) -> dict[str, str]:
    build, code = running.build, running.build.code
    gpus = [one for one in _target_capabilities(context) if running.verdict and one != running.verdict.gpu]
    how = [running.sentence, *(judge_code(code.targets, one).sentence for one in gpus if code)]
    return {"build": f"{build.label} build", "how": "; ".join(how), "command": build.command}


def _gpu_names(context: Context) -> str:
    return join_items(
        [gpu.title for gpu in context.target_gpus]
        or list(dict.fromkeys(gpu.name for gpu in context.host.gpus or ()))
        or list(map(str, _target_capabilities(context)))
    )


def _target_capabilities(context: Context) -> tuple[Architecture, ...]:
    """The compute capabilities that the wheel must run on; none for the CPU."""
    if _without_cuda(context):
        return ()
    # Without a target use this machine's GPU, whatever the architectures.
    if gpus := context.target_gpus or context.host.gpus:
        return tuple(dict.fromkeys(gpu.compute_capability for gpu in gpus))
    code = context.plan.architectures
    return tuple(dict.fromkeys(a.capability for a in code.architectures)) if code else ()


def _find_best(
    context: Context, *, with_driver: bool, release: PytorchRelease | None = None
) -> RunningBuild | None:
    """Find the official build that runs best on the GPU where it runs worst, with this driver or with any."""
    release, machine, wanted = release or context.pytorch, context.machine, _target_capabilities(context)
    if release is None:
        return None
    by_label: dict[str, list[RunningBuild]] = {}
    for capability in wanted:
        found = published_builds_that_run(release, machine.platform_tag, machine.python.abi_tag, capability)
        for running in found:
            able = not with_driver or _driver_runs(context, running.build.cuda, capability)
            if running.verdict and running.verdict.how in _GOOD_ENOUGH and able:
                by_label.setdefault(running.build.label, []).append(running)
    everywhere = (runs for runs in by_label.values() if len(runs) == len(wanted))
    worst = [max(runs, key=lambda running: running.rank) for runs in everywhere]
    return min(
        worst, key=lambda one: (not _has_requested_cuda(context.plan, one.build), one.rank), default=None
    )


def _driver_runs(context: Context, cuda: str | None, gpu: Architecture) -> bool:
    """Whether this driver runs programs of a CUDA release on a GPU; true if the driver is unknown."""
    needed, driver = needed_driver(cuda, gpu, context.machine.system), context.host.driver
    return not driver or is_l4t(driver) or needed is None or at_least(driver, needed)


def _are_builds_known(context: Context, release: PytorchRelease) -> bool:
    """Whether it is known that there is no other build for the target."""
    platform, python = context.machine.platform_tag, context.machine.python
    if index_is_known(release):
        return True
    # Of some releases it is known that they have nothing before Turing.
    if release.cuda.before_turing and any(one < TURING for one in _target_capabilities(context)):
        return True
    # PyPI has the Pythons of every index.
    every = published_builds(release, platform)
    return bool(every and not published_builds(release, platform, python.abi_tag))


def _requested(plan: Plan) -> Mapping[str, Setting]:
    return {key: one for key, one in plan.settings.entries.items() if one.layer >= Layer.PROJECT}


def _lacks_requested(plan: Plan, build: PublishedBuild) -> bool:
    requested = _requested(plan)
    code, theirs = plan.architectures, build.code.architectures if build.code else ()
    own = code.architectures if code and "arch" in requested else ()
    forms = any(one.suffix and one not in theirs for one in own)
    options = any(
        one.on
        and key.startswith("define.USE_")
        and not one.name.startswith("USE_SYSTEM_")
        and one.name not in included_options()
        for key, one in requested.items()
    )
    known = "cuda" in requested and build.cuda is not None
    other_cuda = known and in_range(str(build.cuda), None, plan.settings.cuda) is False
    return forms or options or plan.settings.build_type != "Release" or other_cuda


def _describe_gains(plan: Plan, running: RunningBuild) -> Iterator[str]:
    build, verdict, code = running.build, running.verdict, plan.architectures
    if verdict is None:
        return
    if verdict.how is not HowItRuns.NATIVE and code is not None and verdict.gpu in code.architectures:
        yield f"machine code for {verdict.gpu.sm} itself"
    # Code that does not run on the GPU is no gain.
    published, own = build.code, code if code and judge_code(code.targets, verdict.gpu).how.runs else None
    if published is not None and own is not None and len(own.targets) < len(published.targets):
        yield f"a smaller wheel: code for {join_items([str(a) for a in own.architectures])} alone, not for {published}"
    if plan.toolkit is not None and plan.toolkit.version != build.cuda and _has_requested_cuda(plan, build):
        yield f"CUDA {plan.toolkit.version} instead of {build.cuda}"


def _own_or_changed(plan: Plan, build: PublishedBuild) -> Iterator[str]:
    yield from describe_own(plan, build)
    if plan.tree.release_tag is not None and not plan.tree.dirty:
        yield "whatever you changed in the source"


def describe_own(plan: Plan, build: PublishedBuild) -> Iterator[str]:
    """Describe what was requested that an official build lacks; everything for a tree that is not a release's."""
    requested = _requested(plan)
    if plan.settings.profile:
        yield f"the profile {join_items(plan.settings.profile)}"
    if "build-type" in requested and plan.settings.build_type != "Release":
        yield f"the build type {plan.settings.build_type}"
    defines = (key.removeprefix("define.") for key in requested if key.startswith("define."))
    if own_options := [name for name in defines if name != "USE_CUDA"]:
        yield f"your own options: {join_items(own_options)}"
    if variables := [key.removeprefix("env.") for key in requested if key.startswith("env.")]:
        yield f"your own variables: {join_items(variables)}"
    if not _has_requested_cuda(plan, build):
        yield f"CUDA {plan.toolkit.version if plan.toolkit else requested['cuda'].text}, as requested"
    if plan.architectures and build.code and any(target.ptx for target in plan.architectures.targets):
        yield from () if any(target.ptx for target in build.code.targets) else ("PTX, for GPUs to come",)
    if "local-version" in requested:
        yield f"the label {requested['local-version'].text}"
    if handed_on := [key for key in plan.settings.passthrough if not is_only_how(key)]:
        yield f"your own settings of the backend: {join_items(handed_on)}"
    if plan.tree.dirty:
        yield "your changes of the source"
    if plan.tree.release_tag is None:
        yield "this tree's own source, which is not on a release tag"


def _has_requested_cuda(plan: Plan, build: PublishedBuild) -> bool:
    requested = _requested(plan)
    if build.cuda is None:
        return True
    if "cuda-path" in requested and plan.toolkit is not None and plan.toolkit.version != build.cuda:
        return False
    return "cuda" not in requested or in_range(build.cuda, None, plan.settings.cuda) is not False


def official_build(context: Context) -> RunningBuild | None:
    """The official build that runs best on the target with this driver; None if none does."""
    release, python = context.pytorch, context.machine.python
    if not _without_cuda(context) or release is None:
        return _find_best(context, with_driver=True)
    builds = published_builds(release, context.machine.platform_tag, python.abi_tag)
    return next((RunningBuild(build, None) for build in builds if build.cuda is None), None)


def _without_cuda(context: Context) -> bool:
    return context.plan.architectures is None and context.is_off("USE_CUDA")


def describe_evidence(plan: Plan, *, tried: bool = True) -> str:
    """Describe the evidence that PyTorch, CUDA and the platform are compatible; empty if the tables lack one.

    ``tried`` is whether to say something of a combination that PyTorch publishes, too.
    """
    context = Context(plan, HostFacts(plan.host))
    pytorch, toolkit, platform = context.pytorch, context.cuda, plan.host.platform_tag
    if pytorch is None or (toolkit is None and plan.architectures is not None):
        return ""
    cuda = f"CUDA {toolkit.version}" if toolkit else "no CUDA"
    builds = published_builds(pytorch, platform)
    untried, release = "untried, as far as is known:", f"PyTorch {pytorch.version}"
    if builds and plan.host.musl:
        return f"{untried} {release} is published for glibc only, not for musl"
    if same := next((one for one in builds if one.cuda == (toolkit.version if toolkit else None)), None):
        code, wanted = same.code, plan.architectures.architectures if plan.architectures else ()
        capabilities = dict.fromkeys(one.capability for one in wanted)
        idle = [str(one) for one in capabilities if code and not judge_code(code.targets, one).how.runs]
        left_out = f", whose code leaves out {join_items(idle)}" if idle else ""
        return f"{release} is published for {platform} with {cuda}{left_out}" if tried else ""
    if not builds:
        of_platform = [one.version for one in read_releases() if published_builds(one, platform)]
        last = f"{release} is not published for {platform}; the last release that is: {''.join(of_platform[-1:])}"
        unknown = f"not known here: whether {release} is published for {platform}"
        return f"{untried} {last}" if of_platform else unknown
    published = join_items(
        list(dict.fromkeys(f"CUDA {build.cuda}" if build.cuda else "no CUDA" for build in builds)), 9
    )
    if not index_is_known(pytorch):
        return (
            f"{untried} of {release} for {platform} builds are known with "
            f"{published or 'nothing'}; what else PyTorch's own index has is not known here"
        )
    return f"{untried} no official build for {platform} is {release} with {cuda}; they are with {published}"
