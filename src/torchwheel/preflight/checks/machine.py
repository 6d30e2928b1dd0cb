"""Checks of the machine: memory, disk, GPUs and their driver, and short and plain paths."""

from __future__ import annotations

from pathlib import PureWindowsPath

from torchwheel.hardware.arch import HowItRuns, Verdict, judge_code
from torchwheel.hardware.architecture import is_tegra
from torchwheel.hardware.gpu_catalogue import NamedGpu
from torchwheel.host.jobs import job_figures, jobs_for
from torchwheel.host.programs import printed_nothing
from torchwheel.preflight.effort import disk_estimate
from torchwheel.preflight.facts import CUDA_COMPILERS, CUDA_HOST_COMPILERS, cuda_programs, is_l4t
from torchwheel.preflight.registry import (
    Answer,
    Context,
    NotJudged,
    Passed,
    Unknown,
    Violation,
    checks_machine,
    known_cuda,
    require_known,
)
from torchwheel.reporting.terminal import count_noun, format_gib, join_items
from torchwheel.versions import at_least

_PATH_LIMIT = 260
# Below a build folder of PyTorch 2.6.0: source/ and 163 characters for a file in test/dynamo_expected_failures.
_LONGEST_BELOW = 170
_GPUS, _DRIVER = Unknown("the GPUs"), Unknown("the driver")
# Characters of a path that break tools, found by builds with each printable one (test_characters.py): ; separates
# CMake's lists, : the folders of PATH, a comma the words that a compiler passes to the linker; braces are placeholders
# in scikit-build-core, brackets are patterns in CMake, and a shell, make or ninja interprets the others. A cache folder
# with such a character is not used, so this is about folders named for one build, and trees built in place.
_SPECIAL = {"posix": set("\"#$&'(),:;<>[\\]`{|}"), "windows": set(';#"$`{}')}


@checks_machine("too-many-jobs-for-memory")
def jobs_fit(context: Context) -> Answer:
    fitting = jobs_for(
        memory_bytes=require_known(context.machine.memory_bytes, "the memory"),
        # Without the cores, because this rule is about memory alone.
        cores=None,
        cuda=context.plan.architectures is not None,
        flash_attention=_has_attention(context),
        architectures=context.plan.architecture_count,
    )
    asked = context.plan.settings.jobs
    if asked is None or asked <= fitting.max_jobs:
        return Passed()
    return Violation({"jobs": count_noun(asked, "job"), "reason": fitting.reason}, str(fitting.max_jobs))


@checks_machine("memory-too-small")
def one_job_fits(context: Context) -> Answer:
    memory, code = require_known(context.machine.memory_bytes, "the memory"), context.plan.architectures
    kind, figure, remedy = "a C++ file", "cxx", "add swap space"
    if code is not None and _has_attention(context):
        kind, remedy = "a flash attention kernel", "-C disable=flash-attention"
        figure = "attention-several" if len(code.architectures) > 1 else "attention"
    elif code is not None:
        kind, figure, remedy = "a CUDA file", "cuda", "-C arch= with one architecture, or add swap space"
    needed = job_figures()[figure]
    values = {"memory": format_gib(memory), "kind": kind, "needed": format_gib(needed)}
    return Passed() if memory >= needed else Violation(values, remedy)


def _has_attention(context: Context) -> bool:
    return context.plan.jobs.flash_attention is not None and context.has_identifier("USE_FLASH_ATTENTION")


@checks_machine("path-too-long")
def short_enough(context: Context) -> Answer:
    folder = _windows_folder(context)
    length = len(folder) + 1 + _LONGEST_BELOW
    values = {"folder": folder, "length": str(length), "limit": str(_PATH_LIMIT)}
    return Passed() if length < _PATH_LIMIT else Violation(values, _short_folder(folder))


@checks_machine("path-with-spaces")
def is_plain_path(context: Context) -> Answer:
    folder = _windows_folder(context)
    kinds = {"a space": " " in folder, "letters beyond ASCII": not folder.isascii()}
    values = {"folder": folder, "kind": " and ".join(kind for kind, there in kinds.items() if there)}
    return Violation(values, _short_folder(folder)) if any(kinds.values()) else Passed()


def _windows_folder(context: Context) -> str:
    """The folder of this build on the examined Windows; other systems allow longer names and other letters."""
    if not context.windows:
        raise NotJudged(None)
    folder = require_known(context.host.build_folder or None, "the folder of builds")
    return folder.rstrip("\\/") + "\\" + context.plan.folders.root.name


def _short_folder(folder: str) -> str:
    return (PureWindowsPath(folder).drive or "C:") + r"\tw"


@checks_machine("path-breaks-tools")
def no_special_characters(context: Context) -> Answer:
    folders = context.plan.folders
    special = _SPECIAL["windows" if context.windows else "posix"]
    for folder in map(str, dict.fromkeys(filter(None, (folders.root, folders.source, folders.environment)))):
        if found := [sign for sign in folder if sign in special or not sign.isprintable()]:
            signs = " ".join(sorted({sign if sign.isprintable() else f"U+{ord(sign):04X}" for sign in found}))
            place = _short_folder(folder) if context.windows else "/path/of/plain/names"
            return Violation({"folder": folder, "signs": signs, "advice": _move(context, folder)}, place)
    return Passed()


def _move(context: Context, folder: str) -> str:
    folders, settings = context.plan.folders, context.plan.settings
    if folder == str(folders.source) and not folders.staged:
        return "move the checkout, which is built in place, to another folder"
    named = "-C build-dir=" if folder == str(folders.root) and settings.build_dir else "TORCHWHEEL_CACHE_DIR="
    return f"name another folder with {named}"


@checks_machine("build-folder-in-checkout")
def outside_the_tree(context: Context) -> Answer:
    root, tree = context.plan.folders.root, context.plan.tree.root
    values = {"folder": str(root.parent), "tree": str(tree)}
    return Violation(values) if context.machine.here and tree in root.parents else Passed()


@checks_machine("build-folder-not-writable")
def folders_writable(context: Context) -> Answer:
    obstacles = context.host.obstacles
    folder = next(iter(obstacles), "")
    return Violation({"folder": folder, "obstacle": obstacles[folder]}) if obstacles else Passed()


@checks_machine("machine-did-not-answer")
def programs_respond(context: Context) -> Answer:
    toolkit, unanswered = context.plan.toolkit, context.host.unanswered
    # Other rules say more about these.
    own = {toolkit.nvcc if toolkit else None}
    own |= {
        compiler.path
        for compiler in context.machine.compilers
        if compiler.kind != "unknown" or printed_nothing(unanswered.get(compiler.path, ""))
    }
    named = cuda_programs(context.plan, (*CUDA_COMPILERS, *CUDA_HOST_COMPILERS))
    own |= {program for _, program in named}
    left = {name: why for name, why in unanswered.items() if name not in own}
    values = {"unanswered": join_items(list(left)), "reasons": "; ".join(left.values())}
    return Violation(values) if left else Passed()


def _judge_gpus(context: Context) -> list[tuple[NamedGpu, Verdict]]:
    code = context.plan.architectures
    if code is None:
        return []
    return [(gpu, judge_code(code.targets, gpu.compute_capability)) for gpu in context.host.gpus or ()]


@checks_machine("architecture-does-not-run-here")
def runs_here(context: Context) -> Answer:
    """Building for another machine is normal, so this only warns."""
    answers = _judge_gpus(context)
    if not answers:
        return _GPUS if context.host.gpus is None and context.plan.architectures else None
    if any(answer.how.runs for _, answer in answers):
        return Passed()
    first, verdict = answers[0]
    values = {"gpus": join_items([gpu.name for gpu, _ in answers]), "reason": verdict.sentence}
    return Violation(values, first.compute_capability.dotted)


@checks_machine("driver-too-old")
def driver_runs(context: Context) -> Answer:
    """Minor-version compatibility: one minimum driver for each major version of CUDA."""
    release, driver = known_cuda(context), context.host.driver
    if not driver or is_l4t(driver):
        return _DRIVER if driver is None else None
    system = context.machine.system
    what = f"the driver that CUDA {release.version} needs"
    needed = require_known(release.minor_version_driver(system), what)
    # Only a usable one: an older one may not compile for the target, or PyTorch may refuse it.
    older = [
        one
        for one in context.accepted_cuda
        if (least := one.minor_version_driver(system)) and at_least(driver, least)
    ]
    # Forward compatibility is for data-centre GPUs: https://docs.nvidia.com/deploy/cuda-compatibility/
    consumer = context.windows or any("GeForce" in gpu.name for gpu in context.host.gpus or ())
    package = f"cuda-compat-{release.version.replace('.', '-')}"
    compat = f", or on a data-centre GPU install {package} and put its folder into LD_LIBRARY_PATH"
    values = {
        "driver": driver,
        "version": release.version,
        "needed": f"{needed} or later",
        "older": f", or use CUDA {older[-1].version}" if older else "",
        "compat": "" if consumer else compat,
    }
    return Passed() if at_least(driver, needed) else Violation(values, needed)


@checks_machine("driver-too-old-for-ptx")
def driver_compiles_ptx(context: Context) -> Answer:
    """A GPU that runs PTX needs a driver as new as the toolkit.

    JetPack's drivers have separate numbers: 540.4.0 belongs to CUDA 12.6, and 580.00 to 13.0.
    Sources: https://github.com/ultralytics/ultralytics/pull/20680, https://github.com/vllm-project/vllm/issues/34470
    """
    release, driver = context.cuda, context.host.driver
    by_ptx = [
        gpu
        for gpu, answer in _judge_gpus(context)
        if answer.how is HowItRuns.PTX_JIT and not is_tegra(gpu.compute_capability)
    ]
    if release is None or not driver or not by_ptx or is_l4t(driver):
        return _DRIVER if release and driver is None and by_ptx else None
    needed = release.required_driver(context.machine.system)
    if needed is None:
        return None
    values = {
        "driver": driver,
        "version": release.version,
        "needed": f"{needed} or later",
        "architecture": by_ptx[0].compute_capability.dotted,
    }
    return Passed() if at_least(driver, needed) else Violation(values, needed)


@checks_machine("disk-too-small")
def fits_on_disk(context: Context) -> Answer:
    free, tree, count = context.host.free_disk_bytes, context.tree, context.plan.architecture_count
    if free is None or not tree.cxx_bytes:
        return Unknown("the free disk" if free is None else "the size of the sources")
    debug = context.plan.settings.debug_information
    needed = disk_estimate(tree.cxx_bytes, tree.cuda_bytes, count, debug=debug, built_share=tree.built_share)
    mebibytes = (tree.cxx_bytes + tree.cuda_bytes) / 2**20
    values = {
        "needed": format_gib(needed),
        "free": format_gib(free),
        "folder": context.host.build_folder,
        "reason": f"sources of {mebibytes:.0f} MiB, {count_noun(count, 'architecture')}"
        + (", debug information" if debug else ""),
    }
    larger = r"D:\torchwheel" if context.windows else "/path/on/a/larger/disk"
    return Passed() if free >= needed else Violation(values, larger)
