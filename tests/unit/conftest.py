"""A unit test starts no compiler and no build tool: one that does fails, and belongs in tests/integration."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from compilers_started import Watch

_WATCH = Watch()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, None, None]:
    return (yield from _let_nothing_compile())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, None, None]:
    return (yield from _let_nothing_compile())


def _let_nothing_compile() -> Generator[None, None, None]:
    _WATCH.take()
    yield
    started = _WATCH.take()
    if started:
        pytest.fail("a test of tests/unit started " + "; ".join(started), pytrace=False)
