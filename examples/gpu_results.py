"""Measures the kernels of texture_kernels and stable_kernel on this machine's GPU; both must be installed.

Prints a table in Markdown: the largest error against PyTorch's own operators in float64, relative to the largest
result, and the bandwidth beside that of a copy of as many bytes.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import torch
from stable_kernel import swiglu
from texture_kernels import rgb_to_lab, sobel
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parent / "texture_kernels" / "tests"))
import reference

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
# Far larger than the caches of any GPU.
IMAGES = (16, 3, 2048, 2048)
REPETITIONS = 20


@dataclass(frozen=True)
class Case:
    """One operator: its inputs, and what it and PyTorch make of them. Each returns its results, gradients included."""

    name: str
    inputs: Callable[[torch.dtype], list[Tensor]]
    operator: Callable[..., Tensor]
    exact: Callable[..., Tensor]


def random_images(count: int) -> Callable[[torch.dtype], list[Tensor]]:
    return lambda dtype: [torch.rand(IMAGES, device="cuda").to(dtype) for _ in range(count)]


def swiglu_in_pytorch(gate: Tensor, up: Tensor) -> Tensor:
    return torch.nn.functional.silu(gate.double()) * up.double()


CASES = (
    Case("rgb_to_lab", random_images(1), rgb_to_lab, reference.rgb_to_lab),
    Case("sobel", random_images(1), sobel, reference.sobel),
    Case("swiglu", random_images(2), swiglu, swiglu_in_pytorch),
)


def relative_error(results: list[Tensor], exact: list[Tensor]) -> float:
    """The largest error of any result, relative to the largest exact value of that result."""
    pairs = zip(results, exact, strict=True)
    return max(float((ours.double() - theirs).abs().max() / theirs.abs().max()) for ours, theirs in pairs)


def forward_and_backward(
    function: Callable[..., Tensor], inputs: list[Tensor]
) -> tuple[Tensor, list[Tensor]]:
    """The result, and the gradients of its weighted sum; the weights are the same in every call."""
    inputs = [tensor.detach().requires_grad_() for tensor in inputs]
    result = function(*inputs)
    torch.manual_seed(1)
    weights = torch.rand(result.shape, device="cuda").to(torch.bfloat16).to(result.dtype)
    result.backward(weights)
    return result.detach(), [tensor.grad for tensor in inputs if tensor.grad is not None]


def seconds(function: Callable[[], object]) -> float:
    """The median time of a call on the GPU."""
    function()
    times = []
    for _ in range(REPETITIONS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        function()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / 1000)
    return statistics.median(times)


def bytes_of(*tensors: Tensor) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def copy_bandwidth(size: int) -> float:
    """Bytes a second, read and written, of a copy that moves as many bytes."""
    source = torch.empty(size // 2, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return 2 * source.numel() / seconds(lambda: target.copy_(source))


def backward_call(function: Callable[..., Tensor], inputs: list[Tensor]) -> tuple[Callable[[], object], int]:
    """A call of the backward kernel alone, and the bytes that it reads and writes."""
    inputs = [tensor.detach().requires_grad_() for tensor in inputs]
    result = function(*inputs)
    weights = torch.ones_like(result)
    # Sobel's filter is linear: its backward does not read the input.
    read = [weights] if function is sobel else [weights, *inputs]
    return lambda: torch.autograd.grad(result, inputs, weights, retain_graph=True), bytes_of(*read, *inputs)


def row(name: str, dtype: torch.dtype, error: float, moved: int, call: Callable[[], object]) -> str:
    bandwidth = moved / seconds(call)
    share = bandwidth / copy_bandwidth(moved)
    kind = str(dtype).removeprefix("torch.")
    return f"| {name} | {kind} | {error:.1e} | {bandwidth / 1e9:.0f} | {share:.2f} |"


def rows_of(case: Case, dtype: torch.dtype) -> list[str]:
    """The table's rows for the operator and for its gradient."""
    torch.manual_seed(0)
    inputs = case.inputs(dtype)
    # In float64 a batch of this size would not fit every GPU: errors are those of its first image.
    few = [tensor[:1] for tensor in inputs]
    result, gradients = forward_and_backward(case.operator, few)
    exact, exact_gradients = forward_and_backward(case.exact, [tensor.double() for tensor in few])
    with torch.no_grad():
        moved = bytes_of(*inputs, case.operator(*inputs))
        error = relative_error([result], [exact])
        forward = row(case.name, dtype, error, moved, lambda: case.operator(*inputs))
    call, moved = backward_call(case.operator, inputs)
    backward = row(f"{case.name}, backward", dtype, relative_error(gradients, exact_gradients), moved, call)
    return [forward, backward]


def main() -> None:
    if not torch.cuda.is_available():
        sys.exit("No GPU that PyTorch can use is at hand: nothing was measured.")
    major, minor = torch.cuda.get_device_capability()
    print(f"{date.today()}, {torch.cuda.get_device_name()} (compute capability {major}.{minor}),")
    print(f"PyTorch {torch.__version__}, CUDA {torch.version.cuda}; {IMAGES[0]} images of {IMAGES[1:]}.\n")
    print("| operator | type | largest error | GB/s | of a copy's |")
    print("|---|---|---|---|---|")
    for case in CASES:
        for dtype in DTYPES:
            print("\n".join(rows_of(case, dtype)), flush=True)


if __name__ == "__main__":
    main()
