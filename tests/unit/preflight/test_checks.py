"""Every rule of a context: broken with the values of its example, and fine."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from preflight.broken_contexts import NEW_GPU, PAIRS, WINDOWS
from preflight.contexts import CL, context, toolkit, tree
from test_messages import placeholders
from torchwheel.hardware.architecture import Architecture
from torchwheel.hardware.gpu_catalogue import NamedGpu, read_gpus
from torchwheel.host.machine import Compiler
from torchwheel.preflight.checks.published import describe_evidence
from torchwheel.preflight.registry import Passed, Unknown, Violation, read_rules
from torchwheel.preflight.report import CHECKS, check_plan
from torchwheel.reporting.errors import Problem
from torchwheel.reporting.messages import read_messages

CHECKED = [rule for rule in read_rules().values() if rule.saves]


def test_every_rule_has_both_scenes() -> None:
    assert PAIRS.keys() == {rule.id for rule in CHECKED}


@pytest.mark.parametrize("rule", CHECKED, ids=lambda rule: rule.id)
def test_broken(rule) -> None:
    context = PAIRS[rule.id].broken()
    answer = CHECKS[rule.id](context)
    assert isinstance(answer, Violation)
    given = {
        **answer.values,
        "nearest": answer.nearest,
        **({"origin": answer.origin} if answer.origin else {}),
    }
    # The fingerprint is not what this is about.
    values = {name: text.replace(context.plan.fingerprint, "FINGERPRINT") for name, text in given.items()}
    message = read_messages()[rule.id]
    assert {name: text for name, text in values.items() if name in placeholders(message) | {"origin"}} == (
        message.example
    )
    found = rule.finding(answer)
    assert (found.severity, found.problem) == (
        rule.severity,
        Problem.of(rule.id, answer.origin, **{**answer.values, "nearest": answer.nearest}),
    )


@pytest.mark.parametrize("rule", CHECKED, ids=lambda rule: rule.id)
def test_holds(rule) -> None:
    context = PAIRS[rule.id].holds()
    answer = CHECKS[rule.id](context)
    assert answer in (Passed(), None)
    passed = check_plan(context.plan, context.host, context.tree).passed
    assert (rule.id in passed) is (answer == Passed())


@pytest.mark.parametrize(
    ("config", "platform", "gpus", "what", "gains"),
    [
        # Code that does not run on the card is no gain, and what is not compiled for it is not "itself".
        ({"arch": "8.9"}, "linux_x86_64", (), "GeForce RTX 5070", None),
        ({"target": "gb10", "arch": "12.0"}, "linux_aarch64", (), "GB10", None),
        ({"target": "gb10"}, "linux_aarch64", (), "GB10", "machine code for sm_121 itself"),
        # Without a target it is about the GPU that is there.
        ({"target": "", "arch": "8.9"}, "linux_x86_64", (NEW_GPU,), "NVIDIA GeForce RTX 5070", None),
    ],
)
def test_what_building_would_gain(
    config: dict[str, str], platform: str, gpus: tuple[NamedGpu, ...], what: str, gains: str | None
) -> None:
    made = context(config, platform=platform, toolkits=(toolkit("13.0", platform),), facts={"gpus": gpus})
    answer = CHECKS["need-not-build"](made)
    assert isinstance(answer, Violation)
    assert answer.values["gpus"] == what
    said = answer.values["gains"]
    assert "8.9 alone" not in said
    assert ("itself" in said) == (gains is not None)
    assert gains is None or gains in said


OLD_MAC: dict[str, Any] = {"config": {"target": "cpu"}, "source": tree("2.2.2"), "python": "3.11"}
SPARK = {
    "platform": "linux_aarch64",
    "source": tree("2.14.1"),
    "toolkits": (toolkit("13.0", "linux_aarch64"),),
}


@pytest.mark.parametrize(
    ("config", "changes"),
    [
        ({}, {"glibc": "2.17"}),
        ({"target": "cpu"}, {"glibc": "2.26"}),
        ({"target": "gb10"}, {"toolkits": (toolkit("13.0"),)}),
        ({"enable": "mpi"}, {}),
        ({"profile": "debug"}, {}),
        ({"arch": "12.0a"}, {}),
        ({}, {"facts": {"driver": "550.54.14"}}),
        ({"skip-check": "need-not-build"}, {}),
    ],
    ids=["old glibc", "old glibc, cpu", "platform", "mpi", "debug", "12.0a", "driver", "switched off"],
)
def test_an_official_build_is_named_only_where_it_installs_runs_and_is_what_was_asked(
    config: dict[str, str], changes: dict[str, Any]
) -> None:
    assert isinstance(CHECKS["need-not-build"](context()), Violation)
    assert not isinstance(CHECKS["need-not-build"](context(config, **changes)), Violation)


@pytest.mark.parametrize(
    ("changes", "answer"),
    [
        ({"platform": "musllinux_1_2_x86_64", "glibc": None}, Passed),
        ({"glibc": "2.17"}, Passed),
        ({"glibc": None}, Unknown),
        ({"glibc": "2.28"}, Violation),
        ({"python": "3.13t", "source": tree("2.14.1")}, Passed),
        ({"python": "3.13t", "source": tree("2.15.0")}, Passed),
        ({"python": "3.13t", "source": tree("2.12.0")}, Violation),
        ({"source": tree("2.15.0")}, Violation),
        ({"platform": "win_amd64", "compiler": CL, "source": tree("2.15.0")}, Unknown),
        ({"platform": "macosx_13_0_x86_64", **OLD_MAC}, Violation),
        ({"platform": "macosx_13_0_arm64", **OLD_MAC}, Violation),
        ({"platform": "macosx_13_0_arm64", **OLD_MAC, "source": tree("2.12.0")}, Passed),
    ],
)
def test_what_pip_accepts_is_judged_by_the_tag(changes: dict[str, Any], answer: type) -> None:
    platform = changes.get("platform", "linux_x86_64").replace("musllinux_1_2", "linux")
    made = context(toolkits=(toolkit("13.0", platform),), **changes)
    found = CHECKS["need-not-build"](made)
    assert isinstance(found, answer)


@pytest.mark.parametrize(
    ("version", "changes", "warned"),
    [
        ("14.1.0", {}, True),
        ("13.3.0", {}, False),
        ("14.1.0", {"config": {"disable": "fbgemm"}}, False),
        ("14.1.0", {"config": {"env.CXXFLAGS": "-Wno-error=maybe-uninitialized"}}, False),
        ("14.1.0", {"source": tree("2.7.0")}, False),
    ],
)
def test_gcc_14_and_the_fbgemm_of_older_releases(version: str, changes: dict[str, Any], warned: bool) -> None:
    compiler = Compiler("cxx", "gcc", "/usr/bin/g++", version, "g++")
    made = context(
        **{"source": tree("2.5.1"), "compiler": compiler, "toolkits": (toolkit("12.4"),), **changes}
    )
    answer = CHECKS["host-compiler-suspect"](made)
    assert isinstance(answer, Violation) is warned


@pytest.mark.parametrize(
    ("program", "answer"),
    [
        ("/usr/bin/g++-12", Passed),
        ("g++-15", Violation),
        ("x86_64-linux-gnu-gcc-15", Violation),
        ("/opt/own/g++", Unknown),
    ],
)
def test_the_host_compiler_of_a_described_machine_is_known_by_its_name(program: str, answer: type) -> None:
    made = context({"env.CUDAHOSTCXX": program})
    elsewhere = replace(made.host.host, here=False, compilers=())
    found = CHECKS["host-compiler-refused-by-cuda"](replace(made, host=replace(made.host, host=elsewhere)))
    assert isinstance(found, answer)


def test_mps_is_built_as_the_answer_to_that_name_says() -> None:
    answer = read_gpus().refusal("mps")
    settings = dict(re.findall(r"-C (\w+)=(\w+)", answer))
    assert settings == {"target": "cpu", "enable": "mps"}
    made = context(settings, platform="macosx_11_0_arm64", glibc=None)
    assert made.plan.settings.defines["USE_MPS"].on


def test_nvcc_does_not_start_with_musl() -> None:
    made = context(platform="musllinux_1_2_x86_64", glibc=None)
    found = CHECKS["toolkit-needs-newer-glibc"](made)
    assert isinstance(found, Violation) and found.values["has"] == "musl 1.2"


@pytest.mark.parametrize("config", [{"disable": "distributed"}, {"profile": "minimal"}, {"enable": "nccl"}])
def test_what_an_official_build_has_beside_is_no_matter(config: dict[str, str]) -> None:
    assert isinstance(CHECKS["need-not-build"](context(config)), Violation)


def test_a_gpu_needs_the_driver_of_the_first_cuda_that_compiles_for_it() -> None:
    answer = CHECKS["newer-driver-instead"](context(facts={"driver": "550.54.14"}))
    assert isinstance(answer, Violation)
    assert answer.nearest == "570.26"


def test_a_number_of_jetson_s_linux_is_no_driver_s() -> None:
    for driver, expected in (("35.4.1", False), ("36.4.0", False), ("540.4.0", True)):
        made = context({"target": "jetson-agx-orin"}, **{**SPARK, "facts": {"driver": driver}})
        assert isinstance(CHECKS["driver-too-old"](made), Violation) is expected, driver


def test_of_platforms_without_data_nothing_is_said_to_be_missing() -> None:
    made = context({"target": "cpu"}, platform="win_arm64", compiler=CL)
    assert describe_evidence(made.plan).startswith("not known here: ")


def test_the_official_build_is_the_one_that_is_best_on_the_gpu_where_it_is_worst() -> None:
    """On a T4, cu130 lacks a part of torch and cu126 does not; on an A100 both have all."""
    made = context({"target": "a100,t4"}, source=tree("2.14.1"), toolkits=(toolkit("13.0"),))
    answer = CHECKS["need-not-build"](made)
    assert isinstance(answer, Violation)
    assert answer.values["build"] == "cu126 build"
    assert all(f"{code} runs on" in answer.values["how"] for code in ("sm_75", "sm_80"))


@pytest.mark.parametrize(
    ("c", "language"),
    [
        (Compiler("c", "gcc", "/usr/bin/gcc", "12", "gcc"), None),
        (Compiler("c", "gcc", "gcc-99", "", ""), "C"),
    ],
)
def test_a_c_compiler_that_does_not_exist_is_missed_beside_one_for_cpp(
    c: Compiler, language: str | None
) -> None:
    made = context()
    host = replace(made.host.host, compilers=(*made.host.host.compilers, c))
    answer = CHECKS["no-host-compiler"](replace(made, host=replace(made.host, host=host)))
    assert (answer.values["language"] if isinstance(answer, Violation) else None) == language


def test_a_folder_that_breaks_tools_is_moved_by_what_names_it() -> None:
    def remedy(config: dict[str, str], **folders: Path) -> str:
        made = context(config)
        made = replace(made, plan=replace(made.plan, folders=replace(made.plan.folders, **folders)))
        answer = CHECKS["path-breaks-tools"](made)
        assert isinstance(answer, Violation)
        return answer.values["advice"]

    tree, root = Path("/a;b/tree"), Path("/plain")
    assert "-C build-dir=" in remedy({"build-dir": "/a;b"})
    assert "TORCHWHEEL_CACHE_DIR=" in remedy({"build-dir": "/c"}, environment=tree)
    # No setting moves a checkout that is built in place.
    assert "=" not in remedy({"build-dir": "/c"}, source=tree, root=root)


def test_windows_has_drivers_of_its_own() -> None:
    """CUDA 12 runs from 525.60.13 on Linux, and from 528.33 on Windows."""
    rule = read_rules()["driver-too-old"]
    linux = context(facts={"driver": "527.41"})
    windows = context(**WINDOWS, facts={"driver": "527.41"})
    assert isinstance(CHECKS[rule.id](linux), Passed)
    answer = CHECKS[rule.id](windows)
    assert isinstance(answer, Violation)
    assert answer.nearest.startswith("528.")


@pytest.mark.parametrize(
    ("gpu", "driver", "cuda", "arch"),
    [
        (NamedGpu("Orin (nvgpu)", Architecture(8, 7)), "540.4.0", "12.6", "8.0+PTX"),
        (NamedGpu("NVIDIA Thor", Architecture(11, 0)), "580.00", "13.0", "9.0+PTX"),
    ],
)
def test_a_jetson_has_drivers_of_its_own(gpu: NamedGpu, driver: str, cuda: str, arch: str) -> None:
    """They come with JetPack, beside CUDA 12.6 and 13.0, whose release notes ask others for 560.28.03 and 580.65.06."""
    facts = {"driver": driver, "gpus": (gpu,)}
    found = (toolkit(cuda, "linux_aarch64"),)
    jetson = context({"target": "", "arch": arch}, platform="linux_aarch64", toolkits=found, facts=facts)
    assert isinstance(CHECKS["driver-too-old"](jetson), Passed)
    assert CHECKS["driver-too-old-for-ptx"](jetson) is None


@pytest.mark.parametrize(
    ("cuda", "glibc", "own", "remedy"),
    [
        ("12.8", "2.40", None, None),
        ("12.9", "2.41", "", None),
        ("12.9", "2.42", "2.41", "use CUDA 13.2 or later"),
        ("13.0", "2.41", None, None),
        ("13.1", "2.42", None, "use CUDA 13.2 or later"),
        ("13.2", "2.43", None, None),
    ],
)
def test_glibc_against_the_headers_of_cuda(
    cuda: str, glibc: str, own: str | None, remedy: str | None
) -> None:
    """Debian 13, Fedora 42 and Ubuntu 25.04 have 2.41; a toolkit whose header was mended goes with it."""
    found = toolkit(cuda, glibc_conflict=own)
    answer = CHECKS["glibc-too-new-for-cuda"](context(glibc=glibc, toolkits=(found,)))
    assert (answer.nearest.partition(", newer than")[0] if isinstance(answer, Violation) else None) == remedy


@pytest.mark.parametrize(
    ("include", "flags", "passes"),
    [
        ("/usr/local/cuda/include", "", False),
        ("/usr/include", "", True),
        ("/usr/local/cuda/include", "-isystem /usr/local/cuda/include", True),
        ("/usr/local/cuda/include", "-isystem /opt/other/include", False),
        ("/usr/local/cuda/include", "-I /usr/local/cuda/include", False),
    ],
)
def test_system_headers_are_forgiven_their_conflict_with_glibc(
    include: str, flags: str, passes: bool
) -> None:
    """Tried by hand with Debian 13: nvcc 12.4, glibc 2.41, the same headers in three places."""
    facts = toolkit("12.8")
    facts = replace(facts, toolkit=replace(facts.toolkit, include_dirs=(include,)))
    for made in (
        context(glibc="2.41", toolkits=(facts,), environment={"NVCC_APPEND_FLAGS": flags}),
        context({"env.NVCC_PREPEND_FLAGS": flags or "-O1"}, glibc="2.41", toolkits=(facts,)),
    ):
        answer = CHECKS["glibc-too-new-for-cuda"](made)
        assert isinstance(answer, Passed if passes else Violation)


def test_an_old_pytorch_is_not_sent_to_a_cuda_that_does_not_compile_it() -> None:
    made = context(glibc="2.41", source=tree("2.6.0"))
    answer = CHECKS["glibc-too-new-for-cuda"](made)
    assert isinstance(answer, Violation)
    assert answer.nearest == ""
    # The folder of packages that are yet to be installed is not known.
    untried = context({"cuda-from": "pypi"}, glibc="2.42")
    answer = CHECKS["glibc-too-new-for-cuda"](untried)
    assert isinstance(answer, Violation)
    assert (answer.values["headers"], ", newer than any" in answer.nearest) == ("", True)


def test_the_kept_environment_gets_no_cmake_that_the_release_refuses() -> None:
    """PyTorch 2.6 asks for cmake without a bound, and pip would take CMake 4."""
    source = tree("2.6.0", requires=("cmake", "ninja"))
    assert context(source=source).plan.build_requires == ("cmake<4", "ninja")
    opted_out = context({"env.CMAKE_POLICY_VERSION_MINIMUM": "3.5"}, source=source)
    assert opted_out.plan.build_requires == ("cmake", "ninja")
    assert context(source=tree("2.7.1", requires=("cmake",))).plan.build_requires == ("cmake",)


def test_without_a_toolkit_there_is_no_release_to_be_unknown() -> None:
    made = context({"cuda": ">=99"})
    report = check_plan(made.plan, made.host, made.tree)
    assert made.plan.toolkit is None
    assert report.errors
    assert report.unchecked == {}


def test_the_first_path_that_windows_refuses_has_260_characters() -> None:
    def judged(longer: int) -> object:
        return CHECKS["path-too-long"](
            context(**{**WINDOWS, "facts": {"build_folder": "C:\\" + "b" * longer}})
        )

    far = judged(1000)
    assert isinstance(far, Violation)
    above = int(far.values["length"]) - 1000
    assert [type(judged(length - above)) for length in (259, 260)] == [Passed, Violation]
