"""What a project assigns and changes in torchwheel, as in torch.utils.cpp_extension."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import torchwheel
from torchwheel.extension import jit
from torchwheel.extension.jit_arguments import Arguments
from torchwheel.extension.project_changes import (
    ChangedFlags,
    changed_nvcc_flags,
    replaced_names,
    with_assigned_toolkit,
)

HALF = "-D__CUDA_NO_HALF_OPERATORS__"


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The package without what a test assigns."""
    monkeypatch.delitem(vars(torchwheel), "COMMON_NVCC_FLAGS", raising=False)
    return monkeypatch


@pytest.fixture
def flags(names: pytest.MonkeyPatch) -> list[str]:
    """The list of flags, as a project imports it."""
    found: list[str] = torchwheel.COMMON_NVCC_FLAGS
    names.setitem(vars(torchwheel), "COMMON_NVCC_FLAGS", found)
    return found


def test_flags_that_nobody_changed(flags: list[str]) -> None:
    assert changed_nvcc_flags() == ChangedFlags()
    assert torchwheel.COMMON_NVCC_FLAGS is flags


def test_a_flag_that_is_removed_and_one_that_is_added(flags: list[str]) -> None:
    flags.remove(HALF)
    flags.append("-DOWN")
    assert changed_nvcc_flags() == ChangedFlags((HALF,), ("-DOWN",))


def test_a_list_in_place_of_the_other(names: pytest.MonkeyPatch) -> None:
    names.setitem(vars(torchwheel), "COMMON_NVCC_FLAGS", [HALF, "-DOWN"])
    changed = changed_nvcc_flags()
    assert (HALF in changed.left_out, "--expt-relaxed-constexpr" in changed.left_out) == (False, True)
    assert changed.added == ("-DOWN",)


def test_they_count_for_what_is_loaded(flags: list[str], names: pytest.MonkeyPatch) -> None:
    taken: list[Arguments] = []

    def take(arguments: Arguments, **_further: Any) -> Path:
        taken.append(arguments)
        return Path("a.so")

    names.setattr(jit, "_provide_module", take)
    names.setattr(jit, "_load_module", lambda *_given, **_further: None)
    flags[:] = [flag for flag in flags if flag != HALF] + ["-DOWN"]
    torchwheel.load("own", ["a.cu"], extra_cuda_cflags=["-O2"])
    torchwheel.load_inline("own", "", "", extra_cuda_cflags=["-O2"])
    assert [(one.left_out_flags, one.cuda_cflags) for one in taken] == [((HALF,), ("-DOWN", "-O2"))] * 2


def test_a_toolkit_that_is_assigned(names: pytest.MonkeyPatch) -> None:
    assert with_assigned_toolkit({"CUDA_HOME": "/other"}) == {"CUDA_HOME": "/other"}
    names.setitem(vars(torchwheel), "CUDA_HOME", Path("/cuda"))
    assert with_assigned_toolkit({"CUDA_HOME": "/other"}) == {"CUDA_HOME": "/cuda"}


def test_names_without_effect(tmp_path: Path, names: pytest.MonkeyPatch) -> None:
    (tmp_path / "utils").mkdir()
    text = "__all__ = []\nCUDA_HOME = None\ndef _write_ninja_file(): ...\ndef errors(): ...\n"
    (tmp_path / "utils/cpp_extension.py").write_text(text, "utf-8")
    assert replaced_names(tmp_path) == ()
    for name in ("_write_ninja_file", "CUDA_HOME", "of_its_own"):
        names.setitem(vars(torchwheel), name, "given")
    assert replaced_names(tmp_path) == ("_write_ninja_file",)
