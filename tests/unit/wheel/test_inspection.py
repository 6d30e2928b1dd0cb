"""How everything in a wheel runs on a GPU, and which GPU is meant."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from put import put
from refusals import error_of
from torchwheel.hardware.arch import HowItRuns
from torchwheel.hardware.architecture import Architecture
from torchwheel.hardware.gpu_catalogue import NamedGpu
from torchwheel.wheel.contents import Library, TorchVersion
from torchwheel.wheel.fatbinary import CodeImage, ImageKind
from torchwheel.wheel.inspection import Inspected, inspect, judge_suitability, named_gpus

KINDS = {"sm": ImageKind.SASS, "ptx": ImageKind.PTX, "lto": ImageKind.LTO_IR}
RTX5070 = NamedGpu("rtx5070", Architecture(12, 0))


def image(label: str, relocatable: bool = False) -> CodeImage:
    """The image of a label such as ``sm120`` or ``ptx90``; ``475*sm120`` is 475 of them."""
    times, _, label = label.rpartition("*")
    kind = label.rstrip("0123456789af")
    number = int(label.removeprefix(kind).rstrip("af"))
    suffix = label[-1] if label[-1] in "af" else ""
    architecture = Architecture.from_dotted(f"{number // 10}.{number % 10}{suffix}")
    assert architecture is not None
    return CodeImage(architecture, KINDS[kind], relocatable, count=int(times or 1), stored_size=100)


def inspected(libraries: Mapping[str, str] = {}, /, **named: str) -> Inspected:
    """Something with these libraries, each with its labels; what has a libtorch_cuda is PyTorch."""
    rows = {**libraries, **{f"{name}.so": labels for name, labels in named.items()}}
    return Inspected(
        Path("torch.whl"),
        "wheel",
        tuple(Library(path, 1000, tuple(map(image, labels.split()))) for path, labels in rows.items()),
        torch=TorchVersion(None, None, None, None) if "libtorch_cuda" in named else None,
    )


def test_the_worst_needed_library_decides_and_is_named() -> None:
    answer = judge_suitability(inspected(cpu="", libtorch_cuda="sm120", extra="ptx90", old="sm80"), RTX5070)
    assert answer.how is HowItRuns.NO
    assert answer.reason == (
        "old.so: sm_80 does not run on 12.0: machine code is bound to its major revision"
    )
    assert [(one.path, one.verdict.how.value) for one in answer.libraries] == [
        ("old.so", "no"),
        ("extra.so", "ptx-jit"),
        ("libtorch_cuda.so", "native"),
    ]


SGL_KERNEL = {
    "_mscclpp.so": "ptx80 sm80 ptx90 sm90",
    "sgl_kernel/flash_ops.abi3.so": "182*sm80 182*sm86 182*sm90a",
    "sgl_kernel/flashmla_ops.abi3.so": "11*sm90a 11*sm100a",
    "sgl_kernel/sm100/common_ops.abi3.so": "74*sm80 74*sm89 74*sm90 74*sm90a 74*sm100a 74*sm120a",
    "sgl_kernel/sm90/common_ops.abi3.so": "74*sm80 74*sm89 74*sm90 74*sm90a 74*sm100a 74*sm120a",
}
BITSANDBYTES = {
    **{
        f"libbitsandbytes_cuda{cuda}.so": "sm60 sm70 sm75 sm80 sm86 sm89 sm90"
        for cuda in (118, 121, 124, 126)
    },
    "libbitsandbytes_cuda128.so": "sm70 sm75 sm80 sm86 sm89 sm90 sm100 sm120",
    **{f"libbitsandbytes_cuda{cuda}.so": "sm75 sm80 sm86 sm89 sm90 sm100 sm120" for cuda in (130, 132)},
}
VLLM = {
    "vllm/_C.abi3.so": "sm75 sm80 sm86 sm89 sm90 sm100 sm120",
    "vllm/_flashmla_C.abi3.so": "sm90a sm100f",
    "vllm/vllm_flash_attn/_vllm_fa2_C.abi3.so": "sm80 ptx80",
    "vllm/vllm_flash_attn/_vllm_fa3_C.abi3.so": "sm80 sm90a",
}
TORCHAO = {"_C_cutlass_90a.abi3.so": "6*sm90a", "_C_mxfp8.so": "3*sm100 3*ptx120"}
TORCHVISION = {
    "torchvision.libs/libnvjpeg.4a0b5c81.so.13": "sm75 sm80 sm90 sm100 sm110 sm120",
    "torchvision/_C_stable.so": "sm75 sm80 sm86 sm90 sm100 ptx120 sm120",
}
ONNXRUNTIME = {"libonnxruntime_providers_cuda.so": "217*sm75 308*sm80 308*sm86 308*sm89 600*sm90a 317*sm120a"}

PADDLE = {
    "paddle/libs/libflashattn.so": "43*sm80 43*sm86",
    "paddle/libs/libphi.so": "666*sm61 666*sm70 665*sm75 665*sm80 665*sm86",
    "paddle/libs/libwarpctc.so": "2*sm50 2*sm61 2*sm70 2*sm75 2*sm80 2*sm86 2*sm90",
}
CUSPARSELT = {
    "libcusparseLt.so.0": "2*ptx52 1*sm52 41*sm80 40*sm86 52*sm87 54*sm89 2*sm90 114*sm90a 560*sm100 62*sm103 88*sm120"
}


@pytest.mark.parametrize(
    ("wheel", "gpu", "how", "without"),
    [
        # Alternatives by directory, and libraries for fewer GPUs than the main one; PTX alone does not make a main one.
        (SGL_KERNEL, "8.9", "native", ["flashmla_ops.abi3.so"]),
        (SGL_KERNEL, "9.0", "native", []),
        (SGL_KERNEL, "10.0", "native", ["flash_ops.abi3.so"]),
        (SGL_KERNEL, "12.0", "native", ["flash_ops.abi3.so", "flashmla_ops.abi3.so"]),
        (SGL_KERNEL, "12.1", "no", []),
        (VLLM, "8.9", "native", ["_flashmla_C.abi3.so"]),
        (VLLM, "12.0", "native", ["_flashmla_C.abi3.so", "_vllm_fa3_C.abi3.so"]),
        (VLLM, "7.0", "no", []),
        # One is loaded by PyTorch's CUDA, which compiles for the GPU.
        (BITSANDBYTES, "7.0", "native", ["libbitsandbytes_cuda130.so", "libbitsandbytes_cuda132.so"]),
        (BITSANDBYTES, "9.0", "native", []),
        (BITSANDBYTES, "12.1", "minor-version", list(BITSANDBYTES)[:4]),
        (BITSANDBYTES, "11.0", "no", []),
        # Nothing needs both of what no GPU runs.
        (TORCHAO, "9.0", "native", ["_C_mxfp8.so"]),
        (TORCHAO, "12.0", "ptx-jit", ["_C_cutlass_90a.abi3.so"]),
        (TORCHAO, "8.9", "no", []),
        ({"a.so": "20*sm90a", "b.so": "20*sm100a", "small.so": "sm75"}, "7.5", "unknown", []),
        ({"libtriton.so": ""}, "12.0", "unknown", []),
        # A small library decides nothing.
        (PADDLE, "7.5", "native", ["libflashattn.so"]),
        (PADDLE, "8.6", "native", []),
        (PADDLE, "9.0", "no", []),
        (PADDLE, "12.0", "no", []),
        # What auditwheel bundled is somebody else's.
        (TORCHVISION, "11.0", "no", []),
        (TORCHVISION, "12.1", "minor-version", []),
        # Files that exist for one architecture alone are not the measure of the others.
        (ONNXRUNTIME, "7.5", "native", []),
        (ONNXRUNTIME, "12.1", "no", []),
        (CUSPARSELT, "8.0", "native", []),
        (CUSPARSELT, "7.0", "no", []),
        ({"old.so": "sm80 sm90", "new.so": "sm90 sm120"}, "12.0", "unknown", []),
        ({"old.so": "sm80", "new.so": "sm80 sm120"}, "12.0", "native", ["old.so"]),
    ],
)
def test_what_gets_loaded_decides(wheel: dict[str, str], gpu: str, how: str, without: list[str]) -> None:
    """The code of the wheels on PyPI in November 2026."""
    answer = judge_suitability(inspected(wheel), NamedGpu("gpu", Architecture.of(gpu)))
    assert answer.how.value == how if answer.is_known else how == "unknown"
    assert [path.rpartition("/")[2] for path in (*answer.without, *answer.unfit)] == without
    assert (answer.cuda == ("12.8", "13.0", "13.2")) is (without == list(BITSANDBYTES)[:4])


# The device code in the wheels of torch 2.14.1 and 2.15.0 on PyPI for Linux, with how many images of each there are.
TORCH_2_14_1 = {
    "libtorch_cuda": "475*sm75 475*sm80 475*sm86 1*sm89 475*sm90 4*sm90a 475*sm100 59*sm100a 59*sm103f 475*sm120 "
    "1*sm120a 1*sm121a",
    "libtorch_cuda_linalg": "65*sm80 65*sm86 65*sm90 65*sm100 65*sm120",
    "libtorch_nvshmem": "sm75 sm80 sm86 sm90 sm100 sm120",
}
TORCH_2_15_0 = {**TORCH_2_14_1, "libtorch_cuda_linalg": "1*sm75 33*sm80 33*sm86 33*sm90 33*sm100 33*sm120"}


@pytest.mark.parametrize(
    ("capability", "how", "image"),
    [
        ("7.5", "native", "sm_75"),
        ("8.9", "minor-version", "sm_86"),
        ("9.0", "native", "sm_90"),
        ("10.3", "minor-version", "sm_100"),
        ("12.0", "native", "sm_120"),
        ("12.1", "minor-version", "sm_120"),
    ],
)
def test_a_few_kernels_of_475_do_not_decide(capability: str, how: str, image: str) -> None:
    gpu = Architecture.from_dotted(capability)
    assert gpu is not None
    answer = judge_suitability(inspected(**TORCH_2_14_1), NamedGpu("gpu", gpu))
    assert (answer.how.value, answer.libraries[0].verdict.image) == (how, image)


@pytest.mark.parametrize(
    ("wheel", "more"),
    [(TORCH_2_14_1, ""), (TORCH_2_15_0, "; sm_75, which does, is in 1 of 33 compiled files")],
)
def test_a_library_that_torch_loads_for_one_thing_is_an_exception(wheel: dict[str, str], more: str) -> None:
    answer = judge_suitability(inspected(**wheel), NamedGpu("t4", Architecture(7, 5)))
    assert (answer.how, answer.without) == (HowItRuns.NATIVE, ("torch.linalg where it uses MAGMA",))
    assert answer.reason == (
        "libtorch_cuda.so: sm_75 runs on 7.5: it is machine code for that architecture; "
        "libtorch_cuda_linalg.so: sm_80, sm_86, sm_90, sm_100, sm_120 do not run on 7.5: machine code is bound to "
        f"its major revision{more}"
    )


@pytest.mark.parametrize(
    ("capability", "how", "without"),
    [
        ("7.0", "native", ("semi-structured sparsity where it uses cuSPARSELt",)),
        ("8.9", "minor-version", ()),
        ("9.0", "native", ("semi-structured sparsity where it uses cuSPARSELt",)),
    ],
)
def test_a_library_of_nvidias_in_the_wheel_does_not_decide(
    capability: str, how: str, without: tuple[str, ...]
) -> None:
    """The wheel of torch 2.4.1 on PyPI, whose bundled cuSPARSELt is older than Hopper."""
    names = ("sm50", "sm60", "sm70", "sm75", "sm80", "sm86", "sm90")
    wheel = {
        "libcusparseLt-f80c68d1": "1*ptx52 11*sm80 14*sm86 1*sm89",
        "libtorch_cuda": " ".join(f"337*{name}" for name in names),
        "libtorch_cuda_linalg": " ".join(f"107*{name}" for name in names if name != "sm75"),
    }
    gpu = Architecture.from_dotted(capability)
    assert gpu is not None
    answer = judge_suitability(inspected(**wheel), NamedGpu("gpu", gpu))
    assert (answer.how.value, answer.without) == (how, without)


@pytest.mark.parametrize(("size", "known"), [(290 << 20, False), (2 << 20, True)])
def test_what_is_hardly_device_code_is_not_judged(size: int, known: bool) -> None:
    """As libcufft.so.11 of nvidia-cufft-cu12 11.4.1 is."""
    library = Library("nvidia/cufft/lib/libcufft.so.11", size, (image("sm52"),))
    answer = judge_suitability(Inspected(Path("cufft.whl"), "wheel", (library,)), RTX5070)
    assert (answer.how, answer.is_known) == (HowItRuns.NO, known)


def test_where_the_rest_does_not_run_nothing_is_an_exception() -> None:
    answer = judge_suitability(inspected(**TORCH_2_14_1), NamedGpu("v100", Architecture(7, 0)))
    assert (answer.how, answer.without) == (HowItRuns.NO, ())
    assert answer.reason.startswith("libtorch_cuda.so: sm_75 does not run on 7.0")
    alone = judge_suitability(inspected(libtorch_cuda_linalg="sm80"), NamedGpu("t4", Architecture(7, 5)))
    assert (alone.how, alone.without) == (HowItRuns.NO, ())


@given(st.lists(st.sampled_from(["", "sm120", "sm80", "ptx90", "sm80 sm120"]), min_size=1, max_size=4))
def test_a_whole_that_runs_has_a_part_that_runs_and_names_each_that_does_not(parts: list[str]) -> None:
    named = {f"part{number}": labels for number, labels in enumerate(parts)}
    alone = {
        name: judge_suitability(inspected(part=one), RTX5070).how.runs for name, one in named.items() if one
    }
    whole = judge_suitability(inspected(**named), RTX5070)
    if whole.is_known and whole.how.runs:
        assert any(alone.values())
        assert set(whole.without) == {f"{name}.so" for name, runs in alone.items() if not runs}
    torch = judge_suitability(
        replace(inspected(**named), torch=TorchVersion(None, None, None, None)), RTX5070
    )
    assert (torch.is_known, torch.how.runs) == (True, bool(alone) and all(alone.values()))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("RTX 5070", [("rtx5070", "12.0")]),
        ("NVIDIA A100-SXM4-80GB", [("a100", "8.0")]),
        ("jetson-thor", [("jetson-thor", "11.0")]),
        ("12.0", [("12.0", "12.0")]),
        ("sm_90a", [("9.0", "9.0")]),
        ("8.0,8.6", [("8.0", "8.0"), ("8.6", "8.6")]),
    ],
)
def test_gpus_by_name_or_capability(name: str, expected: list[tuple[str, str]]) -> None:
    assert [(gpu.name, gpu.compute_capability.dotted) for gpu in named_gpus([name, name], {})] == expected


def test_all_unknown_gpus_are_told_at_once() -> None:
    problems = error_of(named_gpus, ["rtx5071", "zzz", "RTX 6000", "t4", "native"], {"PATH": ""}).problems
    assert [problem.id for problem in problems] == [
        "unknown-gpu",
        "unknown-gpu",
        "ambiguous-gpu",
        "no-gpu-found",
    ]
    assert [problem.remedy for problem in problems[:2]] == [
        "did you mean rtx5070 (12.0)?",
        "name its compute capability instead, --gpu 12.0",
    ]
    assert problems[3].remedy == "name the GPU, for example --gpu rtx5070"


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in for nvidia-smi is a shell script")
def test_the_gpus_of_this_machine(tmp_path: Path) -> None:
    put(tmp_path / "nvidia-smi", "#!/bin/sh\necho 'NVIDIA GeForce RTX 5070, 12.0'\n", 0o755)
    found = named_gpus(["native"], {"PATH": str(tmp_path)})
    assert found == (NamedGpu("NVIDIA GeForce RTX 5070", Architecture(12, 0)),)


def test_only_libraries_of_an_installed_package_count(tmp_path: Path) -> None:
    folder = tmp_path / "torch"
    (folder / "lib").mkdir(parents=True)
    (folder / "version.py").write_text("__version__ = '2.14.1'\ncuda = None\n", "utf-8")
    (folder / "lib/notes.bin").write_bytes(b"no code")
    (folder / "lib/libtorch.so").write_bytes(b"")
    (folder / "lib/libtorch.so.1").symlink_to("libtorch.so")
    assert [library.path for library in inspect(folder).libraries] == ["lib/libtorch.so"]
