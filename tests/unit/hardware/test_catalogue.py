"""What the names of GPUs mean, and which GPUs this machine has."""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from put import put
from refusals import error_of
from torchwheel.hardware import gpu_catalogue
from torchwheel.hardware import gpu_catalogue as detect
from torchwheel.hardware.architecture import Architecture
from torchwheel.hardware.gpu_catalogue import NamedGpu, detect_gpus, read_gpus
from torchwheel.host.programs import NoAnswer
from torchwheel.system.toml import read_toml

FILE = Path(gpu_catalogue.__file__).with_name("gpus.toml")
ALL_SPELLINGS = [(spelling, gpu) for gpu in read_gpus() for spelling in (gpu.name, gpu.title, *gpu.aliases)]


def found(name: str) -> tuple[str, str] | None:
    gpu = read_gpus().find(name)
    return (gpu.name, gpu.compute_capability.dotted) if gpu is not None else None


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (
            "rtx5070|RTX 5070|geforce-rtx-5070|NVIDIA GeForce RTX 5070|GeForceRTX5070|geforce_rtx_5070",
            ("rtx5070", "12.0"),
        ),
        (
            "gb10|dgx-spark|DGX Spark|NVIDIA GB10|GB10 Grace Blackwell|Dell Pro Max with GB10",
            ("gb10", "12.1"),
        ),
        ("NVIDIA AX800 Converged Accelerator", ("ax800", "8.0")),
        ("GRID H100XM-80C|HGX H100", ("h100", "9.0")),
        (
            "NVIDIA Jetson Orin Nano Engineering Reference Developer Kit Super|Orin Nano Super",
            ("jetson-orin-nano", "8.7"),
        ),
        ("a100|A100|NVIDIA A100-SXM4-80GB|NVIDIA A100 80GB PCIe|Tesla A100", ("a100", "8.0")),
        ("1080ti|1080 Ti", ("gtx1080ti", "6.1")),
        ("H20-3e", ("h20-3e", "9.0")),
        ("Jetson AGX Thor Developer Kit|NVIDIA Jetson AGX Thor Developer Kit", ("jetson-t5000", "11.0")),
        # A part of a GPU, and a virtual one, as nvidia-smi and torch.cuda.get_device_name() print them.
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb|GRID A100D-20C|GRID A100-1-5C", ("a100", "8.0")),
        ("rubin|VR200|R100|Vera Rubin", ("rubin", "10.7")),
        ("v100|Tesla V100-SXM2-16GB|Tesla V100-DGXS-32GB|V100S", ("v100", "7.0")),
        ("NVIDIA GeForce RTX 4090 Laptop GPU|rtx4090laptopgpu", ("rtx4090-laptop", "8.9")),
        ("NVIDIA GeForce RTX 3060 12GB|RTX 3060 OEM", ("rtx3060", "8.6")),
        ("NVIDIA GeForce RTX 3050 A Laptop GPU", ("rtx3050a-laptop", "8.9")),
        ("GeForce RTX 2080 Super with Max-Q Design", ("rtx2080-super", "7.5")),
        ("GeForce GTX 750 Ti|gtx750ti", ("gtx750ti", "5.0")),
        ("GeForce MX570 A|mx570", ("mx570", "8.6")),
        ("NVIDIA RTX 6000 Ada Generation|rtx6000ada|RTX 6000 Ada", ("rtx6000-ada", "8.9")),
        (
            "NVIDIA RTX PRO 6000 Blackwell Workstation Edition|RTX PRO 6000|rtx-pro-6000-blackwell",
            ("rtxpro6000", "12.0"),
        ),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", ("rtxpro6000-max-q", "12.0")),
        ("NVIDIA RTX A2000 12GB|A2000|RTX A2000", ("rtxa2000", "8.6")),
        ("Quadro RTX A6000|a6000", ("rtxa6000", "8.6")),
        ("GeForce GTX TITAN X|NVIDIA GeForce GTX TITAN X", ("gtx-titan-x", "5.2")),
        ("NVIDIA TITAN X (Pascal)", ("titan-x-pascal", "6.1")),
        ("orin|Orin (nvgpu)|NVIDIA Tegra Orin (nvgpu)|AGX Orin", ("jetson-agx-orin", "8.7")),
        ("thor|NVIDIA Thor|Jetson AGX Thor", ("jetson-t5000", "11.0")),
    ],
)
def test_names(names: str, expected: tuple[str, str]) -> None:
    assert {name: found(name) for name in names.split("|")} == dict.fromkeys(names.split("|"), expected)


def test_all_of_nvidias_lists_are_in_the_catalogue() -> None:
    lines = Path(__file__).with_name("nvidia_cuda_gpus.txt").read_text(encoding="utf-8").splitlines()
    listed = {
        name: capability for capability, _, name in (line.partition(" ") for line in lines if line[0] != "#")
    }
    assert len(listed) == 156
    assert {name: (found(name) or ("", "missing"))[1] for name in listed} == listed


DECORATIONS = """\
NVIDIA {}|{} 80 GB|{} 24GB|{} 24 GiB|{} (24 GB)|{} PCIe|{} Founders Edition|{} FE|2x {}|8 X NVIDIA {}|{} x8|4\u00d7 {}
{} GPU|NVIDIA Corporation {} (rev a1)|GPU 0: NVIDIA {} (UUID: GPU-1234abcd-12ef)|GA100 [{}] (rev a1)
NVIDIA\u00ae {}\u2122|{}-SXM4-80GB|{} SXM5 141 GB HBM3e|{} Graphics Card
{} MIG 1g.10gb|GRID {}-8Q|{} NVL|{} with Max-Q Design
ASUS TUF Gaming {} OC|dual {} on AWS|a machine with {}|{} 1.5 TB"""


@pytest.mark.parametrize("decoration", re.split(r"[|\n]", DECORATIONS))
def test_what_surrounds_a_name_never_changes_the_architecture(decoration: str) -> None:
    for spelling, gpu in ALL_SPELLINGS:
        text = decoration.format(spelling)
        meant = read_gpus().find(text) or read_gpus().nearest(text)
        assert meant and meant.compute_capability == gpu.compute_capability, (text, meant)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("A100 80 GB|2x A100|NVIDIA A100-PCIE-40GB", "a100"),
        ("2x B200|B200 \u00d78", "b200"),
        ("RTX 6000 Pro|6000 Pro", "rtxpro6000"),
        ("Ada 6000", "rtx6000-ada"),
        ("4070 Ti Super|RTX 4070 TiSuper", "rtx4070ti-super"),
        ("DGX-2", "v100"),
        (
            "DGX Spark FE|ASUS Ascent GX10|ThinkStation PGX|HP ZGX Nano|MSI EdgeXpert|GIGABYTE AI TOP ATOM",
            "gb10",
        ),
    ],
)
def test_words_in_any_order_and_twins(name: str, expected: str) -> None:
    assert {found(spelled) and found(spelled)[0] for spelled in name.split("|")} == {expected}


def test_a_mistyped_name_gets_its_own_architecture_or_no_suggestion() -> None:
    right, wrong, typist = 0, [], random.Random(5)
    for gpu in list(read_gpus())[::4]:
        for at in range(len(gpu.name)):
            before, own, after = gpu.name[:at], gpu.name[at], gpu.name[at + 1 :]
            other = typist.choice("0123456789amtx")
            for typed in {before + after, before + other + after, before + other + own + after}:
                if read_gpus().find(typed) is None and (meant := read_gpus().nearest(typed)):
                    right += meant.compute_capability == gpu.compute_capability
                    wrong += [(typed, meant.name)] * (meant.compute_capability != gpu.compute_capability)
    assert right > 800
    assert wrong == []


@pytest.mark.parametrize(
    ("chip", "capability"), [("GB100", "10.0"), ("AD102", "8.9"), ("GA102GL", "8.6"), ("2x gb20b", "12.1")]
)
def test_a_chip_is_no_product_but_has_a_capability(chip: str, capability: str) -> None:
    assert found(chip) is None
    assert f"-C arch={capability}" in read_gpus().refusal(chip)


def test_aliases_say_what_name_and_title_do_not() -> None:
    key = read_gpus().spelling.key
    for gpu in read_gpus():
        keys = [key(gpu.name), *(key(alias) for alias in gpu.aliases)]
        assert len(set(keys)) == len(keys), gpu
        assert key(gpu.title) not in keys[1:], gpu


def test_ambiguous_names_name_nothing_but_say_what_they_may_mean() -> None:
    (problem,) = error_of(read_gpus().resolve, "RTX 6000", "-C target").problems
    assert (problem.id, problem.origin) == ("ambiguous-gpu", "-C target")
    assert found("NVIDIA RTX 6000 48GB") is None
    assert [gpu.name for gpu in read_gpus().find_candidates("NVIDIA RTX 6000 48GB")] == [
        "quadro-rtx6000", "rtx6000-ada", "rtxpro6000",
    ]  # fmt: skip
    assert read_gpus().find_candidates("rtx5070") == ()


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("rtx5071", "rtx5070"),
        ("rtx507", "rtx5070"),
        ("gtx5070", None),
        ("5070ti", "rtx5070ti"),
        ("rtx 5070 it", "rtx5070"),
        ("ASUS TUF Gaming GeForce RTX 4090 OC", "rtx4090"),
        ("RTX 6090 Pro", None),
        ("RTX PRO 4050 Blackwell", "rtxpro4000"),
        ("rtx500", None),
        ("4090", "rtx4090"),
        ("h10", None),
        ("h1000", None),
        ("b2000", None),
        ("gb1o", "gb10"),
        ("dgxspork", "gb10"),
        ("rtx9999", None),
        ("radeon", None),
        ("", None),
    ],
)
def test_nearest(typed: str, meant: str | None) -> None:
    gpu = read_gpus().nearest(typed)
    assert (gpu and gpu.name) == meant


def test_unknown_names() -> None:
    for name, meant in (("rtx507", "did you mean rtx5070 (12.0)?"), ("Voodoo 5", "")):
        (problem,) = error_of(read_gpus().resolve, name, "-C target").problems
        assert problem.id == "unknown-gpu" and meant in problem.remedy


def test_no_spelling_names_two_products() -> None:
    key = read_gpus().spelling.key
    names: dict[str, str] = {}
    for gpu in read_gpus():
        spelled = {key(text) for text in (gpu.name, gpu.title, *gpu.aliases)}
        without = {one.removeprefix("quadro") for one in spelled} - read_gpus().ambiguous.keys()
        for spelling in spelled | without:
            assert names.setdefault(spelling, gpu.name) == gpu.name, spelling
        assert not spelled & read_gpus().ambiguous.keys(), gpu
    rows = [row["name"] for group in read_toml(FILE)["group"] for row in group["gpus"]]
    assert len(rows) == len(set(rows)) == len(read_gpus().by_name)
    assert {name for names in read_gpus().ambiguous.values() for name in names} <= read_gpus().by_name.keys()


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        (
            "RX 7900 XTX|AMD Radeon RX 7900 XTX|MI300X|Instinct MI250|gfx1100|Radeon 780M|W7900|Strix Halo|RDNA3",
            "ROCm",
        ),
        ("m4 max|Apple M2|M3 Ultra|m1|mps|Metal", "Metal"),
        (
            "Arc A770|B580|Iris Xe|Battlemage|Intel Data Center GPU Max 1550|UHD Graphics 630|UHD 630|Gaudi 3",
            "XPU",
        ),
        (
            "GTX 780|K80|Tesla K40m|Quadro K4000|GTX TITAN Black|GeForce GT 710|GTX 580|GeForce GT 540M|Tesla M2090",
            "Kepler",
        ),
        ("TPU v4|Trainium2|Ascend 910B|MLU370|Moore Threads MTT S80", "no GPU of NVIDIA"),
    ],
)
def test_gpus_that_nothing_is_compiled_for_get_an_answer_of_their_own(name: str, answer: str) -> None:
    for spelled in name.split("|"):
        assert found(spelled) is None
        error = error_of(read_gpus().resolve, spelled)
        assert answer in error.problems[0].remedy
        assert "-C arch=" not in error.problems[0].remedy


def test_no_known_gpu_is_taken_for_a_foreign_one() -> None:
    assert [spelling for spelling, gpu in ALL_SPELLINGS if read_gpus().find(spelling) is not gpu] == []


UNKNOWN_FIELD = 'Field "compute_cap" is not a valid field to query.'
DRIVER_FAILURE = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest "
    "NVIDIA driver is installed and running."
)

MakeSmi = Callable[[dict[str, str]], dict[str, str]]


@pytest.fixture
def nvidia_smi(tmp_path: Path) -> MakeSmi:
    """Puts an nvidia-smi with recorded answers on a PATH of its own: query to answer, as `status|text`."""

    def make(answers: dict[str, str]) -> dict[str, str]:
        folder = tmp_path / "Programme für Grafik"
        folder.mkdir()
        script = put(
            folder / "fake.py",
            f"import sys\nanswers = {answers!r}\n"
            "query, form = sys.argv[1:]\n"
            "assert form == '--format=csv,noheader', form\n"
            "status, _, text = answers[query.removeprefix('--query-gpu=')].partition('|')\n"
            "print(text)\nsys.exit(int(status))\n",
        )
        if sys.platform == "win32":
            program = put(folder / "nvidia-smi.bat", f'@"{sys.executable}" "{script}" %*\n')
        else:
            program = folder / "nvidia-smi"
            program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{script}" "$@"\n', encoding="utf-8")
            program.chmod(0o755)
        return {"PATH": str(folder)}

    return make


def test_two_different_ones_in_the_drivers_order(nvidia_smi: MakeSmi) -> None:
    environment = nvidia_smi(
        {"name,compute_cap": "0|NVIDIA GeForce RTX 5090, 12.0\nNVIDIA A100-SXM4-80GB, 8.0"}
    )
    assert detect_gpus(environment) == (
        NamedGpu("NVIDIA GeForce RTX 5090", Architecture(12, 0)),
        NamedGpu("NVIDIA A100-SXM4-80GB", Architecture(8, 0)),
    )


def test_more_than_any_machine_has(nvidia_smi: MakeSmi) -> None:
    """Each name is looked for in the catalogue, and a rule asks what runs on each."""
    environment = nvidia_smi({"name,compute_cap": "0|" + "\n".join(f"RTX {n}, 12.0" for n in range(100))})
    assert detect_gpus(environment) == tuple(
        NamedGpu(f"RTX {number}", Architecture(12, 0)) for number in range(64)
    )


@pytest.mark.parametrize("capability", ["8.7", "[N/A]", "[Not Supported]"])
def test_jetson(nvidia_smi: MakeSmi, capability: str) -> None:
    environment = nvidia_smi({"name,compute_cap": f"0|Orin (nvgpu), {capability}"})
    assert detect_gpus(environment) == (NamedGpu("Orin (nvgpu)", Architecture(8, 7)),)


@pytest.mark.parametrize("status", [2, 6])
def test_an_old_driver_is_asked_for_names(nvidia_smi: MakeSmi, status: int) -> None:
    environment = nvidia_smi(
        {
            "name,compute_cap": f"{status}|{UNKNOWN_FIELD}",
            "name": "0|Tesla V100-SXM2-16GB\nTesla K80\nTesla T4",
        }
    )
    assert detect_gpus(environment) == (
        NamedGpu("Tesla V100-SXM2-16GB", Architecture(7, 0)),
        NamedGpu("Tesla T4", Architecture(7, 5)),
    )


@pytest.mark.parametrize("answer", ["6|No devices were found", "0|No devices were found", "0|"])
def test_a_driver_without_gpus(nvidia_smi: MakeSmi, answer: str) -> None:
    assert detect_gpus(nvidia_smi({"name,compute_cap": answer})) == ()


def test_a_driver_that_fails_is_quoted(nvidia_smi: MakeSmi) -> None:
    environment = nvidia_smi({"name,compute_cap": f"9|{DRIVER_FAILURE}"})
    with pytest.raises(NoAnswer) as refused:
        detect_gpus(environment)
    assert str(refused.value) == f'nvidia-smi ended with status 9: "{" ".join(DRIVER_FAILURE.split())}"'


def test_no_nvidia_smi(tmp_path: Path) -> None:
    assert detect_gpus({"PATH": str(tmp_path)}) == ()
    assert detect_gpus({"PATH": ""}) == ()
    assert detect_gpus({}) == ()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no executable bit")
def test_a_program_that_cannot_be_started(tmp_path: Path) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_bytes(b"\x7fELF is not a program")
    program.chmod(0o755)
    with pytest.raises(NoAnswer, match="cannot be started"):
        detect_gpus({"PATH": str(tmp_path)})


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in is a shell script")
def test_a_driver_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "nvidia-smi", "#!/bin/sh\nexec sleep 60\n", 0o755)
    monkeypatch.setattr(detect, "_TIMEOUT_SECONDS", 0.1)
    with pytest.raises(NoAnswer, match="took longer than"):
        detect_gpus({"PATH": f"{tmp_path}:/usr/bin:/bin"})
