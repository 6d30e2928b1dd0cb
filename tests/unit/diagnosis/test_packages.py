# ruff: noqa: E501 - commands as they are shown.
"""What is known of packages that people compile: their variables, sources and releases."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

import torchwheel
from torchwheel.diagnosis.grammar import read_causes
from torchwheel.diagnosis.packages import distribution, find_package, install_source, package_at_fault
from torchwheel.diagnosis.scanner import diagnose
from torchwheel.system.toml import read_toml

FOLDER = Path(torchwheel.__file__).parent / "diagnosis" / "packages"
ROWS = [row for path in sorted(FOLDER.glob("*.toml")) for row in read_toml(path).get("package", ())]
FIXES = [*read_toml(FOLDER / "general.toml")["fix"], *(fix for row in ROWS for fix in row.get("fix", ()))]
COMPILE = '`TORCH_CUDA_ARCH_LIST="8.6;12.0" pip install --no-binary :all: NAME`'
FLASH_WHEELS = "https://github.com/Dao-AILab/flash-attention/releases"
PYG = "-f https://data.pyg.org/whl/torch-2.8.0+cu128.html"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"])
def test_a_package_is_found_by_its_names(row: dict[str, str]) -> None:
    package = find_package(row["name"].replace("-", "_"))
    assert package is not None and package.row == row
    assert all(distribution(name) == row["name"] for name in row.get("modules", ()))
    assert install_source(row["name"]) == package.source
    assert row["source"].startswith("https://")


@pytest.mark.parametrize("fix", FIXES, ids=lambda fix: fix.get("says", fix["text"])[:40])
def test_a_fix_is_of_known_causes_and_bounds(fix: dict[str, dict[str, str]]) -> None:
    assert set(fix.get("of", ())) <= read_causes().keys()
    assert fix.keys() & {"of", "says"} and re.compile(fix.get("says", ""))
    assert all(map(SpecifierSet, fix.get("when", {}).values()))
    assert fix.get("when", {}).keys() <= {"torch", "cuda", "python", "release"}


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("xformers", '`TORCH_CUDA_ARCH_LIST="8.6;12.0" pip install --no-binary :all: xformers`'),
        ("natten", "`NATTEN_CUDA_ARCH=\"8.6;12.0\" pip install --no-binary :all: natten`"),
        ("flash_attn", "`FLASH_ATTENTION_FORCE_BUILD=TRUE FLASH_ATTN_CUDA_ARCHS=\"80;120\" pip install --no-binary :all: flash-attn`"),
        ("tinycudann", "`TCNN_CUDA_ARCHITECTURES=\"86;120\" pip install --no-binary :all: 'git+https://github.com/NVlabs/tiny-cuda-nn.git#subdirectory=bindings/torch'`"),
    ],
)  # fmt: skip
def test_a_command_takes_the_variables_and_the_source_of_the_package(name: str, written: str) -> None:
    package = find_package(name)
    assert package is not None and package.adapt(COMPILE) == written


def test_a_variable_that_a_fix_sets_itself_is_not_set_twice() -> None:
    package = find_package("torch-scatter")
    assert package is not None
    fix = "`FORCE_CUDA=1 pip install --no-binary :all: NAME`"
    assert package.adapt(fix) == fix.replace("NAME", "torch-scatter")


def test_the_release_that_a_command_names_is_kept() -> None:
    package = find_package("flash-attn")
    assert package is not None
    fix, log = (
        "`pip install --no-build-isolation NAME`, or `pip install -U NAME`",
        "$ uv pip install flash-attn==2.8.1",
    )
    assert package.adapt(fix, log) == fix.replace("NAME", "flash-attn==2.8.1", 1).replace(
        "NAME", "flash-attn"
    )


@pytest.mark.parametrize(
    ("captures", "lines", "name"),
    [
        ({}, ["ImportError: /v/site-packages/flash_attn_2_cuda.so: undefined symbol: x"], "flash-attn"),
        ({}, ["ImportError: /v/site-packages/other/_C.so: undefined symbol: x"], "other"),
        ({"building": "mamba_ssm"}, ["NameError: name 'x' is not defined"], "mamba-ssm"),
        ({}, ["OSError: no", '  File "C:\\v\\site-packages\\torch_scatter\\__init__.py", line 16'], "torch-scatter"),
        ({}, ["OSError: no", "xformers is not installed"], None),
        ({}, ["OSError: no", '  File "/v/site-packages/torch/_ops.py", line 1'], None),
        ({}, ["Error: not for the triton compiler", '  File "/v/site-packages/vllm/a.py", line 1'], "vllm"),
        ({}, ["OSError: no", "    run()", '  File "/v/site-packages/painter/a.py", line 1'], "painter"),
        ({}, ["OSError: no", '  File "/v/a.py", line 1', '  File "/v/site-packages/painter/a.py", line 1'], None),
    ],
)  # fmt: skip
def test_the_package_at_fault(captures: dict[str, str], lines: list[str], name: str | None) -> None:
    found = package_at_fault(captures, lines)
    assert (found.name if found else None) == name


@pytest.mark.parametrize(
    ("name", "known", "described"),
    [
        ("torch-scatter", {"torch_release": "2.8.1", "torch_build": "cu128"}, {"force": "FORCE_CUDA=1", "wheel": f"pip install --no-deps --no-cache-dir torch-scatter {PYG}"}),
        ("torch-scatter", {"torch_release": "2.8.1"}, {"force": "FORCE_CUDA=1"}),
        ("xformers", {"torch_release": "2.8.0"}, {"fitting": "0.0.32.post2", "wheel": "pip install --no-deps --no-cache-dir xformers==0.0.32.post2"}),
        ("xformers", {"torch_release": "2.3.0"}, {}),
        ("flash-attn", {"capability": "7.5"}, {"too_low": "yes", "least": "8.0", "wheels": FLASH_WHEELS, "force": "FLASH_ATTENTION_FORCE_BUILD=TRUE"}),
        ("flash-attn", {"capability": "12.0"}, {"wheels": FLASH_WHEELS, "force": "FLASH_ATTENTION_FORCE_BUILD=TRUE"}),
    ],
)  # fmt: skip
def test_the_release_for_a_torch_and_a_gpu(
    name: str, known: dict[str, str], described: dict[str, str]
) -> None:
    package = find_package(name)
    assert package is not None and package.describe(known) == {"culprit": name, **described}


def test_a_fix_holds_within_its_bounds() -> None:
    error = "ImportError: /v/site-packages/flash_attn_2_cuda.so: undefined symbol: _ZN3c105ErrorC2E\n"
    old, new = (diagnose([f"torch=={torch}\n{error}".encode()]).cause for torch in ("2.6.0", "2.8.0"))
    assert old is not None and new is not None
    assert "2.7.4.post1" in old.change[0]
    assert not any("2.7.4.post1" in fix for fix in new.change)


def test_where_the_words_are_known_nothing_general_is_said() -> None:
    trace = 'Traceback (most recent call last):\n  File "/v/lib/python3.12/site-packages/vllm/x.py", line 5, in y\n    z()\n'
    said, other = (
        diagnose([f"{trace}ValueError: {words}\n".encode()]).cause
        for words in ("Bfloat16 is only supported on GPUs with compute capability of at least 8.0.", "no")
    )
    assert said is not None and other is not None
    assert len(said.change) == 1 and "--dtype half" in said.change[0]
    assert not any("--dtype half" in fix for fix in other.change)
