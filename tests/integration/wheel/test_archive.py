"""Wheels that nobody should have written.

What takes longer, or starts other programs; the rest is in tests/unit.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from torchwheel.reporting.errors import TorchwheelError
from torchwheel.wheel.contents import inspect_wheel
from wheel_samples import add_members


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_mutations_raise_nothing_else(recipe: Any, samples: Any, tmp_path: Path, data: st.DataObject) -> None:
    """Whatever happens to a wheel's bytes, looking into it and rewriting it raise the one error, or work."""
    files = {"torch/lib/libtorch_cuda.so": samples.library(samples.Entry(2, 120))}
    path = recipe(files=files).write(tmp_path)
    mutated = bytearray(path.read_bytes())
    directory = mutated.index(b"PK\1\2")
    for _ in range(data.draw(st.integers(1, 5))):
        start = data.draw(st.sampled_from([0, directory, len(mutated) - 22]))
        mutated[data.draw(st.integers(start, len(mutated) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del mutated[data.draw(st.integers(0, len(mutated))) :]
    path.write_bytes(mutated)
    for action in (
        lambda: inspect_wheel(path),
        lambda: add_members(path, path, {"new.json": b"{}"}, environment={}),
    ):
        try:
            action()
        except TorchwheelError as error:
            assert all(problem.origin.startswith(str(path)) for problem in error.problems)
    assert [found.name for found in tmp_path.iterdir()] == [path.name]
