"""Interpreters with PyTorch, where somebody names them."""

from __future__ import annotations

import os

import pytest


def _interpreter(variable: str, what: str) -> str:
    python = os.environ.get(variable)
    if not python:
        pytest.skip(f"{variable} names no interpreter with {what}; 'make extensions' does")
    return python


@pytest.fixture(scope="session")
def torch_python() -> str:
    """An interpreter with PyTorch for the CPU, setuptools, ninja and torchwheel."""
    return _interpreter("TEST_TORCHWHEEL_TORCH", "PyTorch")


@pytest.fixture(scope="session")
def cuda_torch_python() -> str:
    """An interpreter with PyTorch for CUDA 13, its toolkit's packages, setuptools, ninja and torchwheel."""
    return _interpreter("TEST_TORCHWHEEL_CUDA_TORCH", "a CUDA build of PyTorch")
