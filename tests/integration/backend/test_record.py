"""What real builds of both generations took, step by step, as their records say."""

from __future__ import annotations

import sys

from backend.conftest import Site
from torchwheel.progress.build_record import read_build_records


def test_every_step_of_a_build_is_recorded(site: Site) -> None:
    # Other tests build there as well, under other names.
    found = [record for _, record in read_build_records(site.cache) if record.build.tree == str(site.tree)]
    record = max(found, key=lambda one: len(one.steps))
    assert record.running == ()
    sources = {step.source for step in record.steps if step.source}
    assert {"c10/core/Device.cpp", "aten/src/ATen/Tensor.cpp", "torch/csrc/Module.cpp"} <= sources
    for source in sources:
        generated = source.endswith(("BuildSettings.cpp", ".DEFAULT.cpp"))
        assert generated or (site.tree / source).is_file(), source
    assert {"lib/libc10.so", "lib/libtorch_cpu.so"} <= {step.output for step in record.steps}
    assert all(record.started < step.start < step.end for step in record.made)
    for step in record.steps:
        if step.source and step.source.endswith(".cpp") and step.seconds > 1.5 and sys.platform == "linux":
            # A compiler of C++ takes more than that for an empty file, and less than that for these.
            assert 20 << 20 < (step.peak or 0) < 1 << 30, step
