"""One mutation for each field of a wheel's file name, METADATA, WHEEL and ELF header, and other plain lies."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from wheel.wheelfile import WheelFile

from extension.compiled_modules import compiled
from torchwheel.reporting.errors import TorchwheelError
from verification.fixtures import Checked

MODULE = "kernels/_C.cpython-311-x86_64-linux-gnu.so"
METADATA = (
    "Metadata-Version: 2.1\nName: kernels\nVersion: 1.2\nRequires-Python: >=3.10\nRequires-Dist: numpy>=1\n"
)
WHEEL = "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: false\nTag: cp311-cp311-linux_x86_64\nBuild: 7\n"


@dataclass(frozen=True)
class Made:
    """A wheel whose every part can be another one."""

    name: str = "kernels-1.2-7-cp311-cp311-linux_x86_64.whl"
    metadata: str = METADATA
    wheel: str = WHEEL
    module: str = MODULE
    header: Mapping[int, bytes] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)

    def write(self, folder: Path, data: bytes) -> Path:
        changed = bytearray(data)
        for position, value in self.header.items():
            changed[position : position + len(value)] = value
        info = "kernels-1.2.dist-info"
        path = folder / "kernels-1.2-7-cp311-cp311-linux_x86_64.whl"
        with WheelFile(path, "w") as archive:
            archive.writestr("kernels/__init__.py", b"")
            archive.writestr(self.module, bytes(changed))
            for name, content in self.files.items():
                archive.writestr(name, content)
            archive.writestr(f"{info}/METADATA", self.metadata.encode())
            archive.writestr(f"{info}/WHEEL", self.wheel.encode())
        return path.rename(folder / self.name)


def renamed(old: str, new: str, *, everywhere: bool = False) -> Made:
    """The wheel under another file name; with the tag of WHEEL too where it is to say the same."""
    name = Made.name.replace(old, new)
    return Made(name, wheel=WHEEL.replace(old, new) if everywhere else WHEEL)


def metadata(old: str, new: str) -> Made:
    assert old in METADATA
    return Made(metadata=METADATA.replace(old, new))


def wheel(old: str, new: str) -> Made:
    assert old in WHEEL
    return Made(wheel=WHEEL.replace(old, new))


def elf(position: int, form: str, *values: int) -> Made:
    return Made(header={position: struct.pack(f"<{form}", *values)})


MUTATIONS = {
    "name": (renamed("kernels-", "kernel-"), "names-differ"),
    "version": (renamed("-1.2-", "-1.3-"), "names-differ"),
    "build": (renamed("-7-", "-8-"), "field-not-valid"),
    "no build": (renamed("-7-", "-"), "field-not-valid"),
    "python": (renamed("cp311-cp311", "cp310-cp310"), "names-differ"),
    "python everywhere": (renamed("cp311-cp311", "cp313-cp313", everywhere=True), "tag-not-proved"),
    "abi": (renamed("cp311-cp311", "cp311-abi3", everywhere=True), "tag-not-proved"),
    "abi none": (renamed("cp311-cp311", "py3-none", everywhere=True), "tag-not-proved"),
    "free-threaded": (renamed("cp311-cp311", "cp313-cp313t", everywhere=True), "tag-not-proved"),
    "platform": (renamed("x86_64", "aarch64", everywhere=True), "tag-not-proved"),
    "32 bits": (renamed("x86_64", "i686", everywhere=True), "tag-not-proved"),
    "any": (renamed("linux_x86_64", "any", everywhere=True), "tag-not-proved"),
    "libc": (renamed("linux_x86_64", "manylinux_2_17_x86_64", everywhere=True), "newer-than-platform-tag"),
    "Metadata-Version": (metadata("2.1", "9.9"), "field-not-valid"),
    "no Metadata-Version": (metadata("Metadata-Version: 2.1\n", ""), "field-not-valid"),
    "Name": (metadata("Name: kernels", "Name: other"), "names-differ"),
    "Version": (metadata("Version: 1.2", "Version: 1.2.1"), "names-differ"),
    "Version twice": (metadata("Version: 1.2\n", "Version: 1.2\nVersion: 1.2\n"), "names-differ"),
    "Requires-Python": (metadata(">=3.10", "3.x"), "field-not-valid"),
    "Requires-Python of another Python": (metadata(">=3.10", ">=3.12"), "field-not-valid"),
    "Requires-Dist": (metadata("numpy>=1", "numpy >>1"), "field-not-valid"),
    "Requires-Dist by address": (
        metadata("numpy>=1", "numpy @ https://example.org/n.whl"),
        "field-not-valid",
    ),
    "Provides-Extra": (metadata("Requires-Dist", "Provides-Extra: ???\nRequires-Dist"), "field-not-valid"),
    "Wheel-Version": (wheel("1.0", "9.0"), "field-not-valid"),
    "no Wheel-Version": (wheel("Wheel-Version: 1.0\n", ""), "field-not-valid"),
    "Root-Is-Purelib": (wheel("false", "true"), "field-not-valid"),
    "malformed Root-Is-Purelib": (wheel("false", "maybe"), "field-not-valid"),
    "Tag": (wheel("cp311-cp311", "cp312-cp312"), "names-differ"),
    "no Tag": (wheel("Tag: cp311-cp311-linux_x86_64\n", ""), "names-differ"),
    "Build": (wheel("Build: 7", "Build: 9"), "field-not-valid"),
    "EI_MAG": (elf(0, "B", 0), "library-not-loadable"),
    "EI_CLASS": (elf(4, "B", 1), "library-not-loadable"),
    "EI_DATA": (elf(5, "B", 2), "library-not-loadable"),
    "EI_VERSION": (elf(6, "B", 2), "library-not-loadable"),
    "EI_OSABI": (elf(7, "B", 9), "library-not-loadable"),
    "EI_ABIVERSION": (elf(8, "B", 9), "library-not-loadable"),
    "EI_PAD": (elf(9, "B", 1), "library-not-loadable"),
    "e_type": (elf(16, "H", 1), "library-not-loadable"),
    "e_machine": (elf(18, "H", 183), "tag-not-proved"),
    "e_version": (elf(20, "I", 2), "library-not-loadable"),
    "e_phoff": (elf(32, "Q", 0), "library-not-loadable"),
    "e_shoff": (elf(40, "Q", 0), "library-not-loadable"),
    "e_phentsize": (elf(54, "H", 0), "library-not-loadable"),
    "e_phnum": (elf(56, "H", 0), "library-not-loadable"),
    "e_shentsize": (elf(58, "H", 1), "damaged-library"),
    "e_shnum": (elf(60, "H", 0xFFF0), "damaged-library"),
    "e_shstrndx": (elf(62, "H", 0xFF00), "damaged-library"),
    "a module of another machine": (
        Made(module=MODULE.replace("x86_64-linux-gnu", "aarch64-linux-gnu")),
        "tag-not-proved",
    ),
    "a file and a folder": (Made(files={"kernels/a": b"", "kernels/a/b": b""}), "forbidden-member"),
    "names that differ in case": (Made(files={"kernels/a": b"", "kernels/A": b""}), "suspicious-member"),
}


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    source = '#include <sys/random.h>\nextern "C" long PyInit__C() { char x; return getrandom(&x, 1, 0); }'
    return compiled(tmp_path_factory.mktemp("module"), source).read_bytes()


def found_in(made: Made, folder: Path, module: bytes, checked: Checked) -> set[str]:
    """The ids of everything that is wrong with a wheel."""
    try:
        return {
            problem.id for check in checked(made.write(folder, module)).values() for problem in check.problems
        }
    except TorchwheelError as error:
        return {problem.id for problem in error.problems}


def test_the_wheel_itself_is_sound(tmp_path: Path, module: bytes, checked: Checked) -> None:
    assert found_in(Made(), tmp_path, module, checked) == set()
    # The loader ignores what is in these fields of a library for x86-64.
    for position, form in ((24, "Q"), (48, "I"), (52, "H")):
        assert found_in(elf(position, form, 1), tmp_path, module, checked) == set()


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_is_found(name: str, tmp_path: Path, module: bytes, checked: Checked) -> None:
    made, expected = MUTATIONS[name]
    assert expected in found_in(made, tmp_path, module, checked)


def test_what_another_tool_renamed_is_sound(tmp_path: Path, module: bytes, checked: Checked) -> None:
    """As torchvision 0.29.2, whose WHEEL still says linux."""
    plain = replace(renamed("linux_x86_64", "manylinux_2_28_x86_64"))
    assert found_in(plain, tmp_path, module, checked) == set()


def test_what_is_installed_elsewhere_gets_a_line(tmp_path: Path, module: bytes, checked: Checked) -> None:
    data = "kernels-1.2.data"
    names = (
        "evil.pth",
        "sitecustomize.py",
        "other/__init__.py",
        f"{data}/scripts/tool",
        f"{data}/data/etc/x",
    )
    checks = checked(Made(files=dict.fromkeys(names, b"")).write(tmp_path, module))
    (note,) = checks["record"].notes
    for name in ("evil.pth", "sitecustomize.py", "other", "scripts/tool", "data/etc"):
        assert name in note.what
    assert not any(check.problems for check in checks.values())
