"""Whether a CUDA toolkit may compile for a PyTorch that was built with another CUDA."""

from __future__ import annotations

from torchwheel.errors import Problem
from torchwheel.findings import Finding, error, warning
from torchwheel.versions import major_minor, numbers

RULES = ("error", "minor", "allow")
"""``cuda-mismatch``: whether another minor version is an error too, or not even another major one is."""


def mismatch_finding(toolkit_version: str, torch_cuda: str, rule: str, origin: str = "") -> Finding | None:
    """What there is to say about a toolkit and a PyTorch of different CUDA versions; None if they are the same.

    By ``minor`` that is what torch.utils.cpp_extension says: another major version is an error, another minor one a
    warning, since CUDA keeps its libraries compatible within a major version
    (https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html).

    Args:
        toolkit_version: the toolkit's release, ``"13.0"``.
        torch_cuda: the CUDA release that PyTorch was built with, ``"12.8"``.
        rule: one of :data:`RULES`.
        origin: what led to the toolkit.
    """
    toolkit, torch = major_minor(toolkit_version), major_minor(torch_cuda)
    if toolkit == torch:
        return None
    same_major = numbers(toolkit)[:1] == numbers(torch)[:1]
    if rule == "error" or not (same_major or rule == "allow"):
        return error(_refused(toolkit, torch, origin, same_major=same_major))
    return warning(_accepted(toolkit, torch, origin, same_major=same_major))


def _refused(toolkit: str, torch: str, origin: str, *, same_major: bool) -> Problem:
    why = (
        "cuda-mismatch is error, which allows no other version"
        if same_major
        else "libraries of different major versions of CUDA are not compatible"
    )
    lenient = "minor" if same_major else "allow"
    return Problem(
        id="cuda-mismatch",
        what=f"the CUDA toolkit is of {toolkit}, but the installed PyTorch was built with CUDA {torch}",
        remedy=f"name a toolkit of CUDA {torch} with -C cuda-path=, or install a PyTorch for CUDA {toolkit}; "
        f"-C cuda-mismatch={lenient} lets it pass",
        why=why,
        origin=origin,
    )


def _accepted(toolkit: str, torch: str, origin: str, *, same_major: bool) -> Problem:
    if same_major:
        remedy = "none needed, unless symbols are missing when it is loaded"
        why = "within a major version CUDA's libraries are compatible"
    else:
        remedy = f"where it fails to load, name a toolkit of CUDA {torch} with -C cuda-path="
        why = "libraries of different major versions of CUDA are not compatible; cuda-mismatch is allow"
    return Problem(
        id="cuda-mismatch",
        what=f"the CUDA toolkit is of {toolkit}, and the installed PyTorch was built with CUDA {torch}",
        remedy=remedy,
        why=why,
        origin=origin,
    )
