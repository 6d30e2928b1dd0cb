"""Deflating what a build backend stored: the same files, the same bytes for any number of threads."""

from __future__ import annotations

import random
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
from wheel.wheelfile import WheelFile

from torchwheel.reporting.errors import TorchwheelError
from torchwheel.wheel import rawzip
from torchwheel.wheel.rewrite import Changes, add_members, rewrite_wheel
from wheel_samples import agrees_with_record

CHUNK = 1 << 20
CONTENT = {
    "torch/text.py": b"import torch\n" * 500,
    "torch/empty.py": b"",
    "torch/lib/chunk.so": random.Random(1).randbytes(1000) * (CHUNK // 1000) + b"\1" * (CHUNK % 1000),
    "torch/lib/noise.so": random.Random(2).randbytes(2 * CHUNK + 1),
    "torch/lib/long.so": bytes(range(256)) * (3 * CHUNK // 256) + b"end",
    "torch-1.dist-info/METADATA": b"Metadata-Version: 2.1\nName: torch\nVersion: 1\n",
    "torch-1.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-any\n",
}


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """As ``bdist_wheel --compression=stored`` leaves it, with one member that was deflated already."""
    path = tmp_path / "torch-1-py3-none-any.whl"
    with WheelFile(path, "w", compression=zipfile.ZIP_STORED) as wheel:
        for name, data in CONTENT.items():
            wheel.writestr(name, data)
        wheel.writestr("torch/deflated.py", b"x = 1\n" * 100, compress_type=zipfile.ZIP_DEFLATED)
    return path


def test_every_reader_reads_the_same_files(stored: Path, tmp_path: Path) -> None:
    result = tmp_path / "result" / stored.name
    result.parent.mkdir()
    add_members(stored, result, {"torchwheel.json": b"{}"}, environment={})
    with zipfile.ZipFile(result) as archive, zipfile.ZipFile(stored) as source:
        assert archive.testzip() is None
        assert {name: archive.read(name) for name in CONTENT} == CONTENT
        kinds = {info.filename: info.compress_type for info in archive.infolist()}
        assert [name for name, kind in kinds.items() if kind == zipfile.ZIP_STORED] == ["torch/empty.py"]
        before, after = source.getinfo("torch/deflated.py"), archive.getinfo("torch/deflated.py")
        assert (before.compress_size, before.CRC) == (after.compress_size, after.CRC)
        assert archive.getinfo("torch/lib/long.so").compress_size < CHUNK // 10
        times = [info.date_time for info in source.infolist() if not info.filename.endswith("RECORD")]
        assert [info.date_time for info in archive.infolist()][: len(times)] == times
    assert agrees_with_record(result)
    if shutil.which("unzip"):
        subprocess.run(["unzip", "-tqq", str(result)], check=True)


@pytest.mark.parametrize("cores", [1, 2, 7])
def test_the_number_of_threads_changes_nothing(
    stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: int
) -> None:
    expected, result = tmp_path / "expected.whl", tmp_path / "result.whl"
    add_members(stored, expected, {}, environment={})
    monkeypatch.setattr(rawzip, "usable_cores", lambda: cores)
    add_members(stored, result, {}, environment={})
    assert result.read_bytes() == expected.read_bytes()


def test_damage_in_what_was_stored_is_no_wheel(stored: Path, tmp_path: Path) -> None:
    """A byte that changed after the backend took its checksum."""
    data = bytearray(stored.read_bytes())
    data[data.index(b"import torch\n")] ^= 1
    stored.write_bytes(data)
    with pytest.raises(TorchwheelError, match="its bytes do not have its checksum"):
        add_members(stored, tmp_path / "result.whl", {}, environment={})
    assert not (tmp_path / "result.whl").exists()


def test_a_copy_for_another_reason_leaves_what_is_stored(stored: Path, tmp_path: Path) -> None:
    rewrite_wheel(stored, tmp_path / "result.whl", lambda _: Changes({}), environment={})
    with zipfile.ZipFile(tmp_path / "result.whl") as archive:
        assert archive.getinfo("torch/lib/long.so").compress_type == zipfile.ZIP_STORED
