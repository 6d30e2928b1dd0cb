"""Fat binaries and the device code in libraries: made by hand, and compiled by nvcc.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchwheel.reporting.errors import TorchwheelError
from torchwheel.wheel.contents import read_library

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
    return [(image.label, image.relocatable, image.count) for image in read_library("library", path).images]


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
        "options", [["--compress-mode=none", "-G"], ["--compress-mode=size"]], ids=" ".join
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
    def test_mutations_of_a_library_raise_nothing_else(
        self, nvcc: Callable[..., Path], data: st.DataObject
    ) -> None:
        good = nvcc("all.o", "-c", *CODES).read_bytes()
        start = good.index(b"\x50\xed\x55\xba")
        mutated = bytearray(good)
        for _ in range(data.draw(st.integers(1, 8))):
            area = data.draw(st.sampled_from([(0, 64), (start, start + 200), (0, len(good) - 1)]))
            mutated[data.draw(st.integers(*area))] = data.draw(st.integers(0, 255))
        try:
            found = read_library("library", io.BytesIO(mutated)).images
        except TorchwheelError as error:
            assert {problem.id for problem in error.problems} <= {"damaged-library", "damaged-fat-binary"}
        else:
            assert sum(image.count for image in found) <= 8
