"""Device code in libraries: made by hand, and compiled by nvcc."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchwheel.errors import Problem, TorchwheelError
from torchwheel.hardware.architecture import Architecture
from torchwheel.wheel.binary import CodeImage, combine, images
from torchwheel.wheel.fatbinary import ImageKind

CODES = [
    "-gencode=arch=compute_75,code=sm_75",
    "-gencode=arch=compute_90a,code=sm_90a",
    "-gencode=arch=compute_100f,code=sm_100f",
    "-gencode=arch=compute_103,code=sm_103",
    "-gencode=arch=compute_120,code=sm_120",
    "-gencode=arch=compute_120a,code=sm_120a",
    "-gencode=arch=compute_121,code=sm_121",
    "-gencode=arch=compute_90,code=compute_90",
]


def labels(path: Path) -> list[tuple[str, bool, int]]:
    return [(image.label, image.relocatable, image.count) for image in images(path)]


def sass(number: str, count: int, size: int, relocatable: bool = False) -> CodeImage:
    architecture = Architecture.from_dotted(number)
    assert architecture is not None
    return CodeImage(architecture, ImageKind.SASS, relocatable, count, size)


def test_elf_and_pe_alike(samples: Any) -> None:
    entry = samples.Entry
    code = samples.fat_binary(entry(2, 90), entry(2, 120), entry(1, 120)) + samples.fat_binary(entry(2, 90))
    relocatable = samples.fat_binary(entry(2, 120), entry(8, 90))
    expected = (
        CodeImage(Architecture(9, 0), ImageKind.LTO_IR, True, 1, 8),
        CodeImage(Architecture(9, 0), ImageKind.SASS, False, 2, 16),
        CodeImage(Architecture(12, 0), ImageKind.PTX, False, 1, 8),
        CodeImage(Architecture(12, 0), ImageKind.SASS, False, 1, 8),
        CodeImage(Architecture(12, 0), ImageKind.SASS, True, 1, 8),
    )
    for make in (samples.elf, samples.pe):
        data = make({".text": b"x", ".nv_fatbin": code, "__nv_relfatbin": relocatable})
        assert images(io.BytesIO(data)) == expected
    assert [image.label for image in expected] == ["lto90", "sm90", "ptx120", "sm120", "sm120"]
    assert [image.runs for image in expected] == [False, True, True, True, False]


def test_no_device_code(samples: Any, tmp_path: Path) -> None:
    script = tmp_path / "script ä.sh"
    script.write_text("#!/bin/sh\n", encoding="utf-8")
    assert images(script) == ()
    assert images(io.BytesIO(samples.library())) == ()


def test_combine_adds_up() -> None:
    first, second = (sass("9.0", 2, 10), sass("12.0", 1, 4)), (sass("9.0", 1, 5), sass("9.0", 1, 1, True))
    assert combine([*first, *second]) == (sass("9.0", 3, 15), sass("9.0", 1, 1, True), sass("12.0", 1, 4))


def test_a_missing_file(tmp_path: Path) -> None:
    path = tmp_path / "gone.so"
    with pytest.raises(TorchwheelError) as caught:
        images(path)
    assert caught.value.problems == (
        Problem(
            id="unreadable-file",
            what="cannot be read: No such file or directory",
            remedy="check that the file exists and that you may read it",
            origin=str(path),
        ),
    )


def test_overlapping_sections_are_refused(samples: Any) -> None:
    code = samples.fat_binary(samples.Entry(2, 90, payload=bytes(4000)))
    data = bytearray(samples.elf({".nv_fatbin": code, "__nv_relfatbin": bytes(8)}))
    (table,) = struct.unpack_from("<Q", data, 40)
    assert len(images(io.BytesIO(data))) == 1
    data[table + 2 * 64 + 24 : table + 2 * 64 + 40] = data[table + 64 + 24 : table + 64 + 40]
    with pytest.raises(TorchwheelError, match="its sections of device code overlap"):
        images(io.BytesIO(data))


@given(st.data())
def test_mutations_raise_nothing_else(samples: Any, data: st.DataObject) -> None:
    make = data.draw(st.sampled_from([samples.elf, samples.pe]))
    mutated = bytearray(make({".nv_fatbin": samples.fat_binary(*[samples.Entry(2, 90)] * 3)}))
    for position in data.draw(st.lists(st.integers(0, len(mutated) - 1), max_size=6)):
        mutated[position] = data.draw(st.integers(0, 255))
    del mutated[data.draw(st.integers(0, len(mutated))) :]
    try:
        found = images(io.BytesIO(mutated))
    except TorchwheelError as error:
        assert {problem.id for problem in error.problems} <= {"damaged-library", "damaged-fat-binary"}
    else:
        assert sum(image.count for image in found) <= 3


@pytest.mark.nvcc
class TestCompiledByNvcc:
    def test_object_file_with_every_form(self, nvcc: Callable[..., Path]) -> None:
        expected = ["sm75", "ptx90", "sm90a", "sm100f", "sm103", "sm120", "sm120a", "sm121"]
        assert labels(nvcc("all.o", "-c", *CODES)) == [(label, False, 1) for label in expected]

    def test_family_code_for_a_later_member(self, nvcc: Callable[..., Path]) -> None:
        """cuobjdump lists this as sm_103; it is family code, as the header says."""
        path = nvcc("family.o", "-c", "-gencode=arch=compute_100f,code=sm_103")
        assert labels(path) == [("sm103f", False, 1)]

    @pytest.mark.parametrize(
        "options",
        [
            ["--compress-mode=none"],
            ["--compress-mode=speed", "-Xfatbin", "-compress-all"],
            ["--compress-mode=size", "-Xfatbin", "-compress-all"],
            ["-lineinfo"],
            ["-G"],
        ],
        ids=" ".join,
    )
    def test_however_it_is_stored(self, nvcc: Callable[..., Path], options: list[str]) -> None:
        path = nvcc(f"{'_'.join(options)}.o", "-c", "-arch=sm_90", *options)
        assert labels(path) == [("ptx90", False, 1), ("sm90", False, 1)]

    def test_shared_library(self, nvcc: Callable[..., Path]) -> None:
        """Of the two images of sm_120 one is the device linker's stub."""
        path = nvcc("kernel.so", "-shared", "-Xcompiler", "-fPIC", "-arch=sm_120")
        assert labels(path) == [("ptx120", False, 1), ("sm120", False, 2)]

    def test_relocatable_device_code(self, nvcc: Callable[..., Path]) -> None:
        linkable = nvcc("rdc.o", "-c", "-rdc=true", "-arch=sm_120")
        assert labels(linkable) == [("ptx120", True, 1), ("sm120", True, 1)]
        linked = nvcc("rdc.so", "-shared", "-Xcompiler", "-fPIC", "-rdc=true", "-arch=sm_120")
        assert labels(linked) == [("ptx120", True, 1), ("sm120", False, 1), ("sm120", True, 1)]

    def test_lto_ir(self, nvcc: Callable[..., Path]) -> None:
        path = nvcc("lto.o", "-c", "-rdc=true", "-gencode=arch=compute_90,code=lto_90")
        assert labels(path) == [("lto90", True, 1)]

    @settings(max_examples=50)
    @given(data=st.data())
    def test_mutations_raise_nothing_else(self, nvcc: Callable[..., Path], data: st.DataObject) -> None:
        good = nvcc("all.o", "-c", *CODES).read_bytes()
        start = good.index(b"\x50\xed\x55\xba")
        mutated = bytearray(good)
        for _ in range(data.draw(st.integers(1, 8))):
            area = data.draw(st.sampled_from([(0, 64), (start, start + 200), (0, len(good) - 1)]))
            mutated[data.draw(st.integers(*area))] = data.draw(st.integers(0, 255))
        try:
            found = images(io.BytesIO(mutated))
        except TorchwheelError as error:
            assert {problem.id for problem in error.problems} <= {"damaged-library", "damaged-fat-binary"}
        else:
            assert sum(image.count for image in found) <= 8
