"""Which host compilers nvcc takes: by the toolkit's own header, else by the table; and MSVC's standard library."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from answered import answered
from places import REPOSITORY
from shipped_data import violations
from torchwheel.system.toml import read_toml
from torchwheel.toolkit import host_compiler
from torchwheel.toolkit.cuda_releases import read_toolkits
from torchwheel.toolkit.cuda_toolkit import assumed_toolkit
from torchwheel.toolkit.host_compiler import (
    HostCompilerLimits,
    header_conflict,
    header_limits,
    nvcc_limit,
    refusing_library,
)


@pytest.mark.parametrize(
    ("version", "kind", "compiler", "expected"),
    [
        ("12.6", "gcc", "13.3.0", True),
        ("12.6", "gcc", "14", False),
        ("13.0", "gcc", "15.1.0", True),
        ("13.0", "clang", "21.0.0", False),
        ("12.3", "msvc", "19.38.33130", True),
        ("12.3", "msvc", "19.40", False),
        ("12.4", "msvc", "19.40", True),
        ("13.0", "msvc", "19.16", False),
        ("13.2", "msvc", "19.50", True),
        ("13.0", "gcc", "", None),
        ("13.0", "msvc", "19", None),
        ("13.0", "unknown", "3.0", None),
    ],
)
def test_host_compilers(version: str, kind: str, compiler: str, expected: bool | None) -> None:
    release = read_toolkits().release(version)
    assert release is not None
    limit = nvcc_limit(kind, release, None)
    assert (limit.accepts(compiler) if limit else None) is expected


def test_what_the_toolkit_itself_tells_comes_before_the_table() -> None:
    release = read_toolkits().release("12.6")
    assert release is not None
    own = nvcc_limit("gcc", release, HostCompilerLimits(gcc_max=14))
    assert own is not None
    assert (own.accepts("14.2.0"), own.authority) == (True, "the toolkit's own crt/host_config.h")
    table = nvcc_limit("clang", release, HostCompilerLimits(gcc_max=14))
    assert table is not None
    assert table.authority == "torchwheel's table of CUDA releases"


@pytest.mark.parametrize(
    ("msvc", "cuda", "refused"),
    [
        ("19.40", "12.3", False),
        ("19.41", "12.3", True),
        ("19.44.35211", "12.4", False),
        ("19.44", "12.3", True),
        ("19.50", "13.1", False),
        ("19.51.36231", "13.1", True),
        ("19.51", "13.2", False),
        ("19.52", "13.2", True),
        ("19.52", "13.3", False),
    ],
)
def test_libraries_of_msvc(msvc: str, cuda: str, refused: bool) -> None:
    assert (refusing_library(msvc, cuda) is not None) is refused


PLAIN = "extern __device_builtin__ double {name}(double x);\n"
GUARDED = "extern __device_builtin__ double {name}(double x) _NV_SPECIFIER;\n"


@pytest.mark.parametrize(
    ("cospi", "rsqrt", "expected"),
    [(PLAIN, PLAIN, "2.41"), (GUARDED, PLAIN, "2.42"), (GUARDED, GUARDED, ""), ("", "", None)],
)
def test_the_glibc_that_a_header_contradicts(
    tmp_path: Path, cospi: str, rsqrt: str, expected: str | None
) -> None:
    """As CUDA 12.9, 13.1, 13.2 write them, and no header at all."""
    (tmp_path / "crt").mkdir()
    text = "// start\n" * 10_000 + rsqrt.format(name="rsqrt") + cospi.format(name="cospi")
    (tmp_path / "crt" / "math_functions.h").write_text(text, encoding="utf-8")
    toolkit = replace(assumed_toolkit("12.9", "linux_x86_64"), include_dirs=(str(tmp_path),))
    assert header_conflict(toolkit) == expected


def test_a_vendors_own_clang_has_a_bound_of_its_own(tmp_path: Path) -> None:
    """As in CUDA 13.4 and 13.5, where the bound for Clang itself comes second."""
    (tmp_path / "crt").mkdir()
    (tmp_path / "crt" / "host_config.h").write_text(
        "#if defined(__HORIZON__)\n"
        "#if (__clang_major__ >= 22) || (__clang_major__ < 3)\n"
        "#error -- unsupported HOS clang version!\n"
        "#endif\n#endif\n"
        "#if (__clang_major__ >= 23) || (__clang_major__ < 3)\n"
        "#error -- unsupported clang version!\n"
        "#endif\n",
        encoding="utf-8",
    )
    limits = header_limits(replace(assumed_toolkit("13.5", "linux_x86_64"), include_dirs=(str(tmp_path),)))
    assert limits is not None
    assert limits.clang_max == 22


def test_the_data_file_has_the_form_of_its_schema() -> None:
    data = Path(host_compiler.__file__).with_name("msvc_library.toml")
    assert violations(data, Path(__file__).with_name("msvc_library.schema.json")) == []


@pytest.mark.skipif(not Path("/usr/local/cuda-13.0/bin/ptxas").is_file(), reason="CUDA 13.0 is not installed")
def test_the_entry_that_the_tool_reads_off_a_toolkit_is_the_table_s(tmp_path: Path) -> None:
    tool = REPOSITORY / "tools" / "toolkit_row.py"
    made = answered([sys.executable, tool, "/usr/local/cuda-13.0"], check=True)
    (tmp_path / "row.toml").write_text(made.stdout, encoding="utf-8")
    row, release = read_toml(tmp_path / "row.toml")["release"][0], read_toolkits().release("13.0")
    assert release is not None
    assert set(row["architectures"]) == {architecture.dotted for architecture in release.architectures}
    told = (row["gcc"], row["clang"], tuple(row["msvc"]), row["glibc-conflict"])
    assert told == (release.gcc_max, release.clang_max, release.msvc_range, release.glibc_conflict)
