"""A toolkit of another CUDA version than PyTorch's."""

from __future__ import annotations

import pytest

from torchwheel.toolkit.mismatch import RULES, mismatch_finding


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("toolkit", "torch"), [("13.0", "13.0"), ("13.0.88", "13.0"), ("12.8", "12.8.1")])
def test_the_same_version_is_no_matter(toolkit: str, torch: str, rule: str) -> None:
    assert mismatch_finding(toolkit, torch, rule) is None


@pytest.mark.parametrize(
    ("toolkit", "torch", "rule", "severity"),
    [
        ("13.1", "13.0", "error", "error"),
        ("13.1", "13.0", "minor", "warning"),
        ("13.1", "13.0", "allow", "warning"),
        ("12.8", "13.0", "error", "error"),
        ("12.8", "13.0", "minor", "error"),
        ("12.8", "13.0", "allow", "warning"),
    ],
)
def test_what_each_rule_says(toolkit: str, torch: str, rule: str, severity: str) -> None:
    finding = mismatch_finding(toolkit, torch, rule)
    assert finding is not None
    assert (finding.severity.value, finding.id) == (severity, "cuda-mismatch")


def test_the_texts() -> None:
    def text(toolkit: str, rule: str) -> str:
        finding = mismatch_finding(toolkit, "13.0", rule, "CUDA_HOME")
        assert finding is not None
        return finding.render()

    assert text("12.8", "minor") == (
        "error: CUDA_HOME: the CUDA toolkit is of 12.8, but the installed PyTorch was built with CUDA 13.0"
        "  [cuda-mismatch]\n"
        "    why: libraries of different major versions of CUDA are not compatible\n"
        "    fix: name a toolkit of CUDA 13.0 with -C cuda-path=, or install a PyTorch for CUDA 12.8; "
        "-C cuda-mismatch=allow lets it pass"
    )
    assert text("13.2", "error").endswith(
        "    why: cuda-mismatch is error, which allows no other version\n"
        "    fix: name a toolkit of CUDA 13.0 with -C cuda-path=, or install a PyTorch for CUDA 13.2; "
        "-C cuda-mismatch=minor lets it pass"
    )
    assert text("13.2", "minor") == (
        "warning: CUDA_HOME: the CUDA toolkit is of 13.2, and the installed PyTorch was built with CUDA 13.0"
        "  [cuda-mismatch]\n"
        "    why: within a major version CUDA's libraries are compatible\n"
        "    fix: none needed, unless symbols are missing when it is loaded"
    )
    assert text("12.8", "allow").endswith(
        "    why: libraries of different major versions of CUDA are not compatible; cuda-mismatch is allow\n"
        "    fix: where it fails to load, name a toolkit of CUDA 13.0 with -C cuda-path="
    )
