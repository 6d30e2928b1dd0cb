"""Where the libraries of a wheel find those that they name."""

from __future__ import annotations

from pathlib import Path

import pytest

from extension.compiled_modules import compiled, written_wheel
from torchwheel.proof import Check, CheckOutcome
from torchwheel.verification.comparison import Change, compare
from verification.fixtures import Checked
from wheel_samples import Samples

MODULE = "kernels/_C.cpython-311-x86_64-linux-gnu.so"
INIT = 'extern "C" void* PyInit__C() { return 0; }'


def needing(folder: Path, *names: str, flags: tuple[str, ...] = (), init: str = INIT) -> bytes:
    """A module that names other libraries, which exist only while it is linked."""
    others = [
        compiled(folder / f"other{n}", f"int other{n}() {{ return 1; }}", f"-Wl,-soname,{name}")
        for n, name in enumerate(names)
    ]
    return compiled(folder / "own", init, "-Wl,--no-as-needed", *map(str, others), *flags).read_bytes()


def check(folder: Path, checked: Checked, files: dict[str, bytes], **options: object) -> Check:
    return checked(written_wheel(folder, files, version="1.2", **options))["libraries"]  # type: ignore[arg-type]


def ids(check: Check) -> list[str]:
    return [problem.id for problem in check.problems]


@pytest.mark.parametrize(
    ("tag", "requires", "place"),
    [
        ("cp311-cp311-linux_x86_64", (), "machine"),
        ("cp311-cp311-manylinux_2_28_x86_64", (), ""),
        ("cp311-cp311-manylinux_2_28_x86_64", ("numpy",), "unknown"),
    ],
)
def test_a_library_that_is_not_known(
    tag: str, requires: tuple[str, ...], place: str, tmp_path: Path, checked: Checked
) -> None:
    found = check(
        tmp_path, checked, {MODULE: needing(tmp_path, "libnowhere.so.3")}, tag=tag, requires=requires
    )
    assert ids(found) == ([] if place else ["library-not-found"])
    assert not place or found.figures[place] == ["libnowhere.so.3"]
    assert [note.id for note in found.notes] == (["library-from-elsewhere"] if place else [])


@pytest.mark.parametrize("place", ["kernels/lib", "kernels.libs"])
@pytest.mark.parametrize("kind", ["--enable-new-dtags", "--disable-new-dtags"])
def test_a_library_in_the_wheel(place: str, kind: str, tmp_path: Path, checked: Checked) -> None:
    path = (f"-Wl,-rpath,$ORIGIN/../{place}", f"-Wl,{kind}")
    own = needing(tmp_path, "libinside.so.3", flags=path)
    other = (tmp_path / "other0" / "module.so").read_bytes()
    found = check(tmp_path, checked, {MODULE: own, f"{place}/libinside.so.3": other})
    assert (found.outcome, found.figures["wheel"]) == (CheckOutcome.PASSED, ["libinside.so.3"])
    lost = needing(tmp_path, "libinside.so.3")
    assert ids(check(tmp_path, checked, {MODULE: lost, f"{place}/libinside.so.3": other})) == [
        "library-not-found"
    ]


def test_a_search_path_that_libraries_inherit(tmp_path: Path, checked: Checked) -> None:
    """DT_RPATH counts for what a library loads, and DT_RUNPATH does not."""
    inner = needing(tmp_path / "inner", "libsecond.so", init="")
    second = (tmp_path / "inner/other0/module.so").read_bytes()
    for kind, expected in (("--disable-new-dtags", []), ("--enable-new-dtags", ["library-not-found"])):
        own = needing(tmp_path, "libfirst.so", flags=("-Wl,-rpath,$ORIGIN/lib", f"-Wl,{kind}"))
        files = {MODULE: own, "kernels/lib/libfirst.so": inner, "kernels/lib/libsecond.so": second}
        assert ids(check(tmp_path, checked, files)) == expected


@pytest.mark.parametrize(
    ("name", "requires", "place"),
    [
        ("libc10.so", ("torch>=2.14",), "requirement"),
        ("libc10.so", (), "torch"),
        ("libcudart.so.13", ("nvidia-cuda-runtime",), "requirement"),
        ("libcudart.so.13", ("torch",), "requirement"),
        ("libcudart.so.13", ('torch; python_version < "3"',), "machine"),
        ("libcudart.so.13", ('cuda-toolkit; extra == "ctk"',), "extra"),
        ("libcudnn.so.9", ("nvidia-cublas",), ""),
        ("libcuda.so.1", (), "driver"),
        ("libz.so.1", (), "system"),
        ("libpython3.11.so.1.0", (), "interpreter"),
    ],
)
def test_a_library_from_elsewhere(
    name: str, requires: tuple[str, ...], place: str, tmp_path: Path, checked: Checked
) -> None:
    found = check(tmp_path, checked, {MODULE: needing(tmp_path, name)}, requires=requires)
    assert ids(found) == ([] if place else ["library-not-found"])
    assert not place or name in found.figures[place]


def test_the_libraries_of_torch_itself(tmp_path: Path, checked: Checked) -> None:
    """It may be built with the machine's CUDA, and never without its own libraries."""
    files = {"torch/__init__.py": b"", "torch/version.py": b"__version__ = '1.2'\ncuda = '13.0'\n"}
    for name, expected in (("libcudnn.so.9", []), ("libc10.so", ["library-not-found"])):
        module = {"torch/_C.cpython-311-x86_64-linux-gnu.so": needing(tmp_path, name)}
        assert ids(check(tmp_path, checked, {**files, **module}, requires=())) == expected
    manylinux = "cp311-cp311-manylinux_2_28_x86_64"
    module = {"torch/_C.cpython-311-x86_64-linux-gnu.so": needing(tmp_path, "libcudnn.so.9")}
    found = check(tmp_path, checked, {**files, **module}, requires=(), tag=manylinux)
    assert ids(found) == ["library-not-found"]


def test_what_no_module_loads_is_optional(tmp_path: Path, checked: Checked) -> None:
    """As the back ends of bitsandbytes."""
    plain = needing(tmp_path / "plain")
    optional = needing(tmp_path, "libhipblas.so.3", "libcudnn.so.9", init="")
    found = check(tmp_path, checked, {MODULE: plain, "kernels/libkernels_rocm70.so": optional}, requires=())
    assert (ids(found), found.notes) == ([], ())


def test_no_verdict_depends_on_this_machine(
    tmp_path: Path, checked: Checked, surroundings: dict[str, str]
) -> None:
    own = needing(tmp_path, "libhere.so.3")
    (tmp_path / "lib").mkdir()
    found = []
    for files in ((), ("libhere.so.3",)):
        for name in files:
            (tmp_path / "lib" / name).write_bytes(b"")
        surroundings["LD_LIBRARY_PATH"] = str(tmp_path / "lib")
        found.append(check(tmp_path, checked, {MODULE: own}))
    assert found[0] == found[1]


def test_a_module_for_one_python_beside_those_for_all(tmp_path: Path, checked: Checked) -> None:
    """As in sgl-kernel 0.3.21: it is optional, and what it needs too; without the others it is a lie."""
    module, tag = needing(tmp_path / "plain"), "cp310-abi3-manylinux_2_28_x86_64"
    part = {MODULE: needing(tmp_path, "libnuma.so.1")}
    both = check(tmp_path, checked, {**part, "other/_C.abi3.so": module}, tag=tag, requires=())
    assert (ids(both), [note.id for note in both.notes]) == ([], ["module-for-one-python"])
    alone = check(tmp_path, checked, part, tag=tag, requires=())
    assert ids(alone) == ["tag-not-proved", "library-not-found"]


def test_a_tag_without_an_abi_is_for_its_python(tmp_path: Path, checked: Checked) -> None:
    files = {MODULE: needing(tmp_path)}
    for tag, expected in (("cp311-none-linux_x86_64", []), ("cp312-none-linux_x86_64", ["tag-not-proved"])):
        assert ids(check(tmp_path, checked, files, tag=tag)) == expected


@pytest.mark.parametrize(
    ("tag", "suffix", "machine", "expected"),
    [
        ("cp311-cp311-win_amd64", ".cp311-win_amd64.pyd", 0x8664, []),
        ("cp311-cp311-win_arm64", ".cp311-win_arm64.pyd", 0xAA64, []),
        ("cp310-abi3-win_amd64", ".pyd", 0x8664, []),
        ("cp311-cp311-win_amd64", ".cp312-win_amd64.pyd", 0x8664, ["tag-not-proved"]),
        ("cp313-cp313t-win_amd64", ".cp313-win_amd64.pyd", 0x8664, ["tag-not-proved"]),
        ("cp310-abi3-win_amd64", ".cp311-win_amd64.pyd", 0x8664, ["tag-not-proved"]),
        ("cp311-cp311-win_amd64", ".cp311-win_arm64.pyd", 0x8664, ["tag-not-proved"]),
        ("cp311-cp311-win_amd64", ".cp311-win_amd64.pyd", 0xAA64, ["tag-not-proved"]),
        ("cp311-cp311-win32", ".cp311-win32.pyd", 0x8664, ["tag-not-proved"]),
        ("cp311-cp311-linux_x86_64", ".cp311-win_amd64.pyd", 0x8664, []),
        ("py3-none-any", ".pyd", 0x8664, ["tag-not-proved"]),
        ("py3-none-any", ".dll", 0x8664, []),
        ("cp311-cp311-win_amd64", ".cp311-win_amd64.pyd", 0, ["library-not-loadable"]),
    ],
)
def test_windows(
    tag: str, suffix: str, machine: int, expected: list[str], tmp_path: Path, checked: Checked
) -> None:
    """Its libraries are not looked for, and its tags are judged by the modules."""
    file = bytearray(Samples.pe({".rdata": b"\0PyInit__C\0"}))
    file[68:70] = machine.to_bytes(2, "little")
    data = bytes(file) if machine else b"\0PyInit__C\0"
    found = check(tmp_path, checked, {f"kernels/_C{suffix}": data}, tag=tag)
    assert ids(found) == expected
    is_linux = tag.endswith("linux_x86_64")
    assert found.outcome is (
        CheckOutcome.FAILED if expected else CheckOutcome.PASSED if is_linux else CheckOutcome.NOT_TRIED
    )


def test_a_comparison_shows_what_a_library_needs(tmp_path: Path) -> None:
    wheels = [
        written_wheel(tmp_path / name, {MODULE: needing(tmp_path / name, name)}, version="1.2")
        for name in ("libcudart.so.12", "libcudart.so.13")
    ]
    assert compare(*wheels).needed == (Change(MODULE, "libcudart.so.12", "libcudart.so.13"),)
