"""Where the libraries of a wheel find those that they name."""

from __future__ import annotations

from pathlib import Path

import pytest

from extension.compiled_modules import TAG, compiled, written_wheel
from torchwheel.verification.outcome import Check, Outcome
from verification.fixtures import Checked

MODULE = "kernels/_C.cpython-311-x86_64-linux-gnu.so"


def needing(folder: Path, name: str, *flags: str) -> bytes:
    """A library that names another, which exists only while it is linked."""
    other = compiled(folder / "other", "int other() { return 1; }", f"-Wl,-soname,{name}")
    source = "int other(); int own() { return other(); }"
    return compiled(folder / "own", source, "-Wl,--no-as-needed", str(other), *flags).read_bytes()


def check(folder: Path, checked: Checked, files: dict[str, bytes], **options: object) -> Check:
    return checked(written_wheel(folder, files, version="1.2", **options))["libraries"]  # type: ignore[arg-type]


def test_a_library_that_is_nowhere(tmp_path: Path, checked: Checked) -> None:
    found = check(tmp_path, checked, {MODULE: needing(tmp_path, "libnowhere.so.3", "-Wl,-rpath,$ORIGIN/lib")})
    (problem,) = found.problems
    assert (problem.id, problem.status) == ("library-not-found", 3)
    assert "libnowhere.so.3" in problem.what
    assert "kernels/lib" in problem.why


@pytest.mark.parametrize("place", ["kernels/lib", "kernels.libs"])
def test_a_library_in_the_wheel(place: str, tmp_path: Path, checked: Checked) -> None:
    own = needing(tmp_path, "libinside.so.3", f"-Wl,-rpath,$ORIGIN/../{place}")
    other = (tmp_path / "other" / "module.so").read_bytes()
    found = check(tmp_path, checked, {MODULE: own, f"{place}/libinside.so.3": other})
    assert (found.outcome, found.figures["wheel"]) == (Outcome.PASSED, ["libinside.so.3"])


@pytest.mark.parametrize(
    ("name", "requires", "place"),
    [
        ("libc10.so", ("torch>=2.14",), "requirement"),
        ("libc10.so", (), ""),
        ("libcudart.so.13", ("nvidia-cuda-runtime",), "requirement"),
        ("libcudart.so.13", ("torch",), "requirement"),
        ("libcudart.so.13", ('torch; python_version < "3"',), ""),
        ("libcuda.so.1", (), "driver"),
        ("libz.so.1", (), "system"),
        ("libpython3.11.so.1.0", (), "interpreter"),
    ],
)
def test_a_library_from_elsewhere(
    name: str, requires: tuple[str, ...], place: str, tmp_path: Path, checked: Checked,
    surroundings: dict[str, str],
) -> None:  # fmt: skip
    surroundings.pop("LD_LIBRARY_PATH", None)
    found = check(tmp_path, checked, {MODULE: needing(tmp_path, name)}, requires=requires)
    if place:
        assert name in found.figures[place]
    elif found.problems:
        assert [problem.id for problem in found.problems] == ["library-not-found"]
    else:
        assert name in found.figures["machine"]


def test_a_library_that_only_this_machine_has(
    tmp_path: Path, checked: Checked, surroundings: dict[str, str]
) -> None:
    own = needing(tmp_path, "libhere.so.3")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libhere.so.3").write_bytes(b"")
    surroundings["LD_LIBRARY_PATH"] = str(tmp_path / "lib")
    found = check(tmp_path, checked, {MODULE: own})
    assert (found.outcome, found.figures["machine"]) == (Outcome.PASSED, ["libhere.so.3"])


def test_the_libraries_of_another_machine_are_not_looked_for_here(tmp_path: Path, checked: Checked) -> None:
    files = {MODULE: needing(tmp_path, "libthere.so.3")}
    found = check(tmp_path, checked, files, tag=TAG.replace("x86_64", "aarch64"))
    assert (found.outcome, found.figures["other_machine"]) == (Outcome.PASSED, ["libthere.so.3"])


def test_windows_is_not_tried(tmp_path: Path, checked: Checked) -> None:
    files = {"kernels/_C.pyd": needing(tmp_path, "x.so")}
    assert check(tmp_path, checked, files, tag="cp311-cp311-win_amd64").outcome is Outcome.NOT_TRIED
