"""How fast `torchwheel diagnose` reads: a generated log of a PyTorch build, with its failure at four fifths.

python benchmarks/diagnose.py [MEGABYTES]
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator

from torchwheel.diagnosis.scanner import diagnose

WARNING = """\
../aten/src/ATen/native/{name}.cpp: In function 'at::Tensor at::native::{name}(const at::Tensor&, int64_t)':
../aten/src/ATen/native/{name}.cpp:{line}:23: warning: comparison of integer expressions of different signedness: \
'size_t' {{aka 'long unsigned int'}} and 'int64_t' {{aka 'long int'}} [-Wsign-compare]
  {line} |     for (size_t i = 0; i < dims; ++i) {{
      |                        ~~^~~~~~
"""
FLAGS = (
    "-DAT_PER_OPERATOR_HEADERS -DUSE_C10D_GLOO -DUSE_DISTRIBUTED -I/src/pytorch/build/aten/src -I/src/pytorch "
    "-isystem /src/pytorch/third_party/protobuf/src -isystem /src/pytorch/third_party/XNNPACK/include "
    "-Wall -Wextra -Werror=return-type -Wno-error=old-style-cast -fno-math-errno -O3 -DNDEBUG -std=gnu++17 -fPIC "
)
FAILURE = """\
FAILED: caffe2/CMakeFiles/torch_cpu.dir/__/aten/src/ATen/native/cpu/Activation.cpp.AVX2.cpp.o
c++: fatal error: Killed signal terminated program cc1plus
compilation terminated.
"""


def log(size: int, verbose: bool) -> Iterator[bytes]:
    """A log of at least ``size`` bytes in chunks; with the compilers' command lines if ``verbose``."""
    rng = random.Random(1)
    names = [f"{a}{b}" for a in ("Batch", "Sparse", "Linear", "Pool", "Conv") for b in range(40)]
    written, step, failed = 0, 0, False
    while written < size:
        lines = []
        for _ in range(2000):
            step += 1
            name = rng.choice(names)
            target = f"caffe2/CMakeFiles/torch_cpu.dir/__/aten/src/ATen/native/{name}.cpp.o"
            command = (
                f"/usr/bin/c++ {FLAGS * 6}-c ../{name}.cpp -o {target}" if verbose else "Building CXX object"
            )
            lines.append(f"[{step}/{10**7}] {command} {target}\n")
            if rng.random() < 0.2:
                lines.append(WARNING.format(name=name, line=rng.randrange(20, 4000)))
        if not failed and written > size * 0.8:
            failed = True
            lines.append(FAILURE)
        chunk = "".join(lines).encode()
        written += len(chunk)
        yield chunk


def main() -> None:
    """Print the speed for a terse and a verbose log."""
    size = (int(sys.argv[1]) if len(sys.argv) > 1 else 200) * 10**6
    for verbose in (False, True):
        chunks = list(log(size, verbose))
        start = time.perf_counter()
        diagnosis = diagnose(chunks)
        seconds = time.perf_counter() - start
        cause = diagnosis.cause.entry.id if diagnosis.cause else "nothing"
        print(
            f"{'verbose' if verbose else 'terse'} log: {diagnosis.bytes / 1e6:.0f} MB, {diagnosis.lines} lines: "
            f"{cause} in {seconds:.1f} s, {diagnosis.bytes / 1e6 / seconds:.0f} MB/s"
        )


if __name__ == "__main__":
    main()
