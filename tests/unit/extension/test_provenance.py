"""What the build manifest of an extension's wheel says, and what its wheel has to be."""

from __future__ import annotations

from pathlib import Path

from extension.planning import NO_CHECKOUT, errors, installed, plan
from torchwheel.extension.extension_plan import Extension, ExtensionPlan
from torchwheel.extension.wheel_record import (
    combine_records,
    read_wheel_record,
    record_of,
    write_wheel_record,
)
from torchwheel.hardware.arch import parse_architectures
from torchwheel.proof.module_checks import ExpectedModule
from torchwheel.reporting.errors import Problem, error
from torchwheel.tree.git import Checkout

SUFFIX = ".cpython-311-x86_64-linux-gnu.so"
MIXED = Extension(
    name="kernels._C",
    sources=("csrc/op.cpp", "csrc/scale.cu", "csrc/sm90/gemm.cu"),
    source_architectures={"csrc/sm90/*.cu": parse_architectures("9.0a")},
)
STABLE = Extension(name="kernels._stable", sources=("csrc/stable.cpp",), stable_abi="2.10", cuda=False)


def planned(folder: Path, *extensions: Extension, checkout: Checkout = NO_CHECKOUT) -> ExtensionPlan:
    made = plan(folder, *extensions, config={"target": "rtx5070"}, checkout=checkout)
    assert [finding.render() for finding in errors(made)] == []
    return made


def test_provenance(tmp_path: Path) -> None:
    made = planned(tmp_path, MIXED, STABLE, checkout=Checkout("0" * 40))
    document = record_of(made).provenance
    assert (document["target"], document["toolchain"]) == (
        ["rtx5070"],
        {"python": "3.11.7", "cxx_compiler": "gcc", "cuda": "13.0.88"},
    )
    assert document["source"] == {"commit": "0" * 40, "dirty": None}
    assert document["extensions"] == {
        "torch": {"version": "2.14.1+cu130", "cuda": "13.0"},
        "requires": ["torch>=2.14,<2.15"],
        "modules": [
            {
                "name": "kernels._C",
                "file": f"kernels/_C{SUFFIX}",
                "stable_abi": None,
                "limited_api": False,
                "architectures": ["sm90a", "sm120"],
            },
            {
                "name": "kernels._stable",
                "file": "kernels/_stable.abi3.so",
                "stable_abi": "2.10",
                "limited_api": True,
                "architectures": [],
            },
        ],
    }


def test_a_changed_checkout_says_so_in_version_and_manifest(tmp_path: Path) -> None:
    made = planned(tmp_path, MIXED, checkout=Checkout("0" * 40, dirty=True))
    record = record_of(made)
    label = "cu130.sm90a.sm120.torch2.14.dirty"
    assert record.local_version == label
    assert record.provenance["source"] == {"commit": "0" * 40, "dirty": True}


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    record = record_of(planned(tmp_path, MIXED, STABLE))
    write_wheel_record(tmp_path / "deep/wheel.json", record)
    assert read_wheel_record(tmp_path / "deep/wheel.json") == record
    both = parse_architectures("9.0a;12.0")
    assert (record.local_version, record.requires, record.architectures, record.limited_api) == (
        *("cu130.sm90a.sm120.torch2.14", ("torch>=2.14,<2.15",), both, False),
    )
    assert record.modules == (
        ExpectedModule(f"kernels/_C{SUFFIX}", both),
        ExpectedModule("kernels/_stable.abi3.so", None, stable_abi="2.10", limited_api="3.10"),
    )
    stable = record_of(planned(tmp_path, STABLE))
    assert (stable.local_version, stable.requires, stable.limited_api) == ("cpu", ("torch>=2.10",), True)


def test_records_of_several_plans_are_one_of_all_their_modules(tmp_path: Path) -> None:
    """CMake makes a plan for each of its calls; one wheel has the modules of all."""
    parts = [record_of(planned(tmp_path, extension)) for extension in (STABLE, MIXED)]
    assert [part.local_version for part in parts] == ["cpu", "cu130.sm90a.sm120.torch2.14"]
    assert combine_records(parts) == record_of(planned(tmp_path, STABLE, MIXED))


def test_records_of_several_plans_name_each_finding_once(tmp_path: Path) -> None:
    """Each plan finds the same of PyTorch, and what is skipped for one module is skipped for the wheel."""
    mismatch = {
        "torch": installed(has_headers=False),
        "config": {"target": "rtx5070", "skip-check": "toolkit-outside-range,torch-without-headers"},
    }
    one = plan(tmp_path, STABLE, **mismatch)
    other = plan(
        tmp_path,
        MIXED,
        toolkit_findings=(error(Problem("toolkit-outside-range", "what", "remedy")),),
        **mismatch,
    )
    whole = combine_records([record_of(one), record_of(other)]).provenance
    assert [found["id"] for found in whole["findings"]] == ["torch-without-headers", "toolkit-outside-range"]
    assert whole["skipped_checks"] == ["toolkit-outside-range", "torch-without-headers"]
