from __future__ import annotations

import pytest

from said import said
from settings.loading import Load, Refuse, rendered
from torchwheel.hardware.architecture import Architecture
from torchwheel.hardware.gpu_catalogue import NamedGpu
from torchwheel.host.machine import Host
from torchwheel.host.programs import NoAnswer
from torchwheel.settings.components import read_components


@pytest.mark.parametrize(
    ("spelled", "name", "arch"),
    [
        ("rtx5070", "rtx5070", "12.0"),
        ("RTX 5070", "rtx5070", "12.0"),
        ("geforce-rtx-5070", "rtx5070", "12.0"),
        ("dgx-spark", "gb10", "12.1"),
        ("a100", "a100", "8.0"),
        ("h100", "h100", "9.0"),
        ("v100", "v100", "7.0"),
    ],
)
def test_gpus_by_any_name(load: Load, spelled: str, name: str, arch: str) -> None:
    settings = load(config={"target": spelled})
    assert (settings.target, str(settings.arch)) == ((name,), arch)
    assert settings.define["USE_CUDA"] is True
    assert settings.entries["arch"].origin == f"compute capability of {name}"
    assert settings.entries["define.USE_CUDA"].origin == f"target {name} (-C target)"


def test_a_gpu_without_a_file_says_nothing_else(load: Load) -> None:
    settings = load(config={"target": "t4"})
    assert {key for key, item in settings.entries.items() if item.layer.title != "built-in default"} == {
        "target",
        "arch",
        "define.USE_CUDA",
    }


def test_an_empty_target_is_none(load: Load) -> None:
    settings = load('[tool.torchwheel]\ntarget = "t4"\n', config={"target": ""})
    assert (settings.target, settings.arch) == ((), None)
    assert dict(settings.define) == {}


def test_several_targets(load: Load) -> None:
    settings = load(config={"target": "t4,a100,T4"})
    assert (settings.target, str(settings.arch), str(settings.cuda)) == (("t4", "a100"), "7.5;8.0", ">=11.8")


def test_ranges_of_several_targets_are_intersected(load: Load) -> None:
    pyproject = """
        [tool.torchwheel.target.t4]
        cuda = "<13"
        [tool.torchwheel.target.l4]
        cuda = ">=12.4"
        """
    settings = load(pyproject, config={"target": "t4,l4"})
    assert str(settings.cuda) == "<13,>=12.4"
    assert settings.entries["cuda"].origin == (
        "pyproject.toml [tool.torchwheel.target.t4] and pyproject.toml [tool.torchwheel.target.l4]"
    )


TWO_MINDS = """
[tool.torchwheel.target.t4]
define.USE_X = true
jobs = 2
[tool.torchwheel.target.l4]
define.USE_X = "OFF"
jobs = 2
"""


def test_targets_that_disagree(load: Load, refuse: Refuse) -> None:
    assert rendered(refuse(pyproject=TWO_MINDS, config={"target": "t4,l4"})) == [
        said(
            "targets-disagree",
            "pyproject.toml [tool.torchwheel.target.t4] and pyproject.toml [tool.torchwheel.target.l4] … OFF",
            "-C define.USE_X=true",
        )
    ]
    settled = load(TWO_MINDS, config={"target": "t4,l4", "define.USE_X": "ON"})
    assert settled.define["USE_X"] == "ON"
    assert sorted(str(other.value) for other in settled.entries["define.USE_X"].replaced) == ["OFF", "True"]


def test_cpu(load: Load) -> None:
    settings = load(config={"target": "cpu"}, environment={"TORCH_CUDA_ARCH_LIST": "9.0"})
    assert (settings.target, settings.is_cpu, settings.arch) == (("cpu",), True, None)
    assert dict(settings.define) == {
        "USE_CUDA": False,
        "USE_CUDNN": False,
        "USE_MPS": False,
        "USE_ROCM": False,
        "USE_XPU": False,
    }


def gpu(name: str, capability: str) -> NamedGpu:
    major, minor = capability.split(".")
    return NamedGpu(name, Architecture(int(major), int(minor), ""))


def test_native_stays_a_name_where_nobody_can_look(load: Load) -> None:
    settings = load(config={"target": "native"})
    assert (settings.target, settings.arch, settings.is_cpu) == (("native",), None, False)
    assert settings.define["USE_CUDA"] is True


def test_native_is_the_gpus_found(load: Load) -> None:
    found = [gpu("NVIDIA A100", "8.0"), gpu("Tesla T4", "7.5"), gpu("Tesla T4", "7.5")]
    settings = load(config={"target": "native"}, detect=lambda: found)
    assert (settings.target, str(settings.arch)) == (("a100", "t4"), "7.5;8.0")
    assert str(settings.cuda) == ">=11.8"


def test_native_takes_a_gpu_that_no_catalogue_has(load: Load) -> None:
    settings = load(config={"target": "native"}, detect=lambda: [gpu("NVIDIA Engineering Sample 7", "9.0")])
    assert (settings.target, str(settings.arch)) == (("nvidia-engineering-sample-7",), "9.0")


def test_the_machine_is_asked_only_for_native(load: Load) -> None:
    def never() -> list[NamedGpu]:
        raise AssertionError("nobody asked for native")

    assert load(config={"target": "t4"}, detect=never).target == ("t4",)
    assert load(detect=never).target == ()


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("rtx5071", "did you mean rtx5070 (12.0)?"),
        ("cpuu", "did you mean cpu?"),
        ("nativ", "did you mean native?"),
        ("sm_120", "-C arch=sm_120"),
        ("banana", "torchwheel gpus"),
        ("rtx 6000", "rtx6000-ada"),
        ("minimal", "-C profile=minimal"),
    ],
)
def test_targets_that_are_none(refuse: Refuse, target: str, said: str) -> None:
    (problem,) = refuse(config={"target": target})
    assert (problem.id, problem.origin) == ("unknown-target", "-C target")
    assert said in problem.render()


def test_the_cpu_among_gpus(refuse: Refuse) -> None:
    assert [problem.id for problem in refuse(config={"target": "cpu,a100"})] == ["cpu-among-gpus"]


def test_no_gpu_for_native(refuse: Refuse) -> None:
    def detect() -> tuple[NamedGpu, ...]:
        raise NoAnswer("no driver")

    for asked, why in ((list, "nvidia-smi"), (detect, "no driver")):
        (problem,) = refuse(config={"target": "native"}, detect=asked)
        assert (problem.id, problem.origin) == ("no-gpu-found", "-C target")
        assert why in problem.render()


@pytest.mark.parametrize(
    ("pyproject", "id", "place"),
    [
        ("[tool.torchwheel.target.lab]\njobs = 1\n", "target-without-architecture", "lab"),
        ('[tool.torchwheel.target.lab]\ninherits = "rtx5o70"\n', "unknown-target", "lab"),
        (
            '[tool.torchwheel.target.lab]\ninherits = "den"\n[tool.torchwheel.target.den]\ninherits = "lab"\n',
            "circular-inheritance",
            "den",
        ),
    ],
)
def test_bad_targets_of_ones_own(refuse: Refuse, pyproject: str, id: str, place: str) -> None:
    (problem,) = refuse(pyproject=pyproject, config={"target": "lab"})
    assert (problem.id, problem.origin) == (id, f"pyproject.toml [tool.torchwheel.target.{place}]")


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        (
            {"pyproject": '[tool.torchwheel]\ntarget = "t4"\n', "environment": {"USE_CUDA": "0"}},
            said(
                "target-contradicts-cuda", "variable USE_CUDA", "t4", "pyproject.toml [tool.torchwheel]", "0"
            ),
        ),
        (
            {"config": {"target": "cpu", "define.USE_CUDA": "ON"}},
            said("target-contradicts-cuda", "-C define.USE_CUDA", "cpu", "-C target", "ON"),
        ),
        (
            {"config": {"target": "cpu", "arch": "9.0"}},
            said("arch-without-gpu", "-C arch", "9.0", "cpu", "-C target"),
        ),
    ],
)
def test_targets_contradicted(refuse: Refuse, sources: dict[str, object], message: str) -> None:
    assert rendered(refuse(**sources)) == [message]


def test_a_target_beats_a_contrary_variable_of_a_lower_layer(load: Load) -> None:
    settings = load(config={"target": "t4"}, environment={"USE_CUDA": "0", "USE_NCCL": "1"})
    cuda = settings.entries["define.USE_CUDA"]
    assert (cuda.value, [(other.value, other.origin) for other in cuda.replaced]) == (
        True,
        [("0", "variable USE_CUDA")],
    )


def test_what_is_switched_off_takes_along_what_needs_it(load: Load) -> None:
    pyproject = '[tool.torchwheel]\nenable = ["nccl", "system-nccl", "gloo", "distributed"]\n'
    settings = load(pyproject, config={"target": "cpu", "disable": "distributed"})
    on = {name for name, value in settings.define.items() if value is True}
    assert on == set()
    nccl, gloo = settings.entries["define.USE_NCCL"], settings.entries["define.USE_GLOO"]
    assert (nccl.origin, gloo.origin) == ("target cpu (-C target)", "-C disable")
    assert [other.origin for other in nccl.replaced] == ["pyproject.toml [tool.torchwheel]"]
    assert settings.entries["define.USE_SYSTEM_NCCL"].value is False


def test_what_is_switched_on_needs_what_a_lower_layer_switched_off(refuse: Refuse) -> None:
    assert rendered(refuse(config={"target": "t4", "profile": "minimal", "enable": "gloo"})) == [
        said("component-needs", "-C enable", "gloo", "distributed", "overlays/minimal.toml")
    ]


def test_a_component_that_the_platform_lacks(refuse: Refuse, windows: Host) -> None:
    assert rendered(refuse(config={"target": "t4", "enable": "nccl"}, host=windows)) == [
        said(
            "component-not-here",
            "-C enable",
            "nccl",
            "USE_NCCL",
            "Windows … NCCL, collectives between GPUs … Linux",
        )
    ]


def test_the_components_that_users_are_promised() -> None:
    promised = (
        "distributed nccl system-nccl gloo mpi tensorpipe flash-attention mem-efficient-attention fbgemm "
        "mslk kineto cupti xnnpack nnpack qnnpack mkldnn tests cuda cudnn cusparselt cudss cufile magma "
        "nvshmem numa nvrtc itt mps xpu rocm openmp ccache native-arch precompiled-headers numpy vulkan gflags "
        "glog lazy-cuda-linalg bundle-ptxas split-cuda caffe2 pthreadpool"
    )
    assert set(promised.split()) <= set(read_components().by_name)


@pytest.mark.parametrize(
    ("spelled", "name"),
    [
        ("NCCL", "nccl"),
        ("flash_attention", "flash-attention"),
        ("flash-attn", "flash-attention"),
        ("onednn", "mkldnn"),
        ("FBGEMM_GENAI", "mslk"),
    ],
)
def test_find_takes_any_spelling(spelled: str, name: str) -> None:
    found = read_components().find(spelled)
    assert found is not None
    assert found.name == name


def test_find_and_nearest_and_options() -> None:
    assert read_components().find("ncll") is None
    assert read_components().nearest("ncll") == "nccl"
    assert read_components().nearest("flash-atention") == "flash-attention"
    assert read_components().nearest("zzzz") is None
    owner = read_components().of_option("CAFFE2_USE_PTHREADPOOL")
    assert owner is not None
    assert (owner.name, owner.options) == ("pthreadpool", ("USE_PTHREADPOOL", "CAFFE2_USE_PTHREADPOOL"))
    assert read_components().of_option("USE_NOTHING") is None


def test_alternatives_in_dependencies() -> None:
    assert read_components().by_name["nccl"].depends_on == (("cuda", "rocm"),)
    assert read_components().by_name["nvshmem"].depends_on == (("cuda",), ("distributed",))
