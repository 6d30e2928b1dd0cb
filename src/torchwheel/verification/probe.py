"""What runs in the interpreter that a wheel is installed for: import it, and calculate with it.

It is a file of its own that imports nothing of torchwheel's. Each step says when it begins and when it has ended, on a
line that begins as the first argument says; so a step that ends the interpreter is known. The second argument is a JSON
object: ``torch``, ``modules``, ``libraries`` and ``capabilities``.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

_SIZE, _LARGE = 64, 512


def main(mark: str, wanted: dict[str, Any]) -> None:
    """Run the steps one after the other, and stop where the next ones make no sense."""
    # A crash then prints where it was, and the end of the log is part of the message.
    faulthandler.enable()

    def run_step(name: str, act: Callable[[], Any]) -> bool:
        print(mark, json.dumps({"step": name}), flush=True)
        began = time.perf_counter()
        try:
            result: dict[str, Any] = {"result": act()}
        except BaseException as error:
            result = {"error": f"{type(error).__name__}: {error}"}
        seconds = time.perf_counter() - began
        print(mark, json.dumps({"step": name, "seconds": seconds, **result}), flush=True)
        return "error" not in result

    if wanted["torch"] and not run_step("import torch", _import_torch):
        return
    if wanted["torch"]:
        run_step("configuration", _read_configuration)
        run_step("cpu", partial(_multiply, "cpu"))
    for name in wanted["modules"]:
        run_step(f"import {name}", partial(_import, name))
    for path in wanted["libraries"]:
        run_step(f"load {path}", partial(_load, path))
    if wanted["torch"]:
        run_step("gpu", partial(_calculate_on_gpus, wanted["capabilities"]))


def _import_torch() -> dict[str, Any]:
    torch = importlib.import_module("torch")
    return {"version": torch.__version__, "file": torch.__file__}


def _import(name: str) -> str | None:
    return getattr(importlib.import_module(name), "__file__", None)


def _load(path: str) -> None:
    torch = importlib.import_module("torch")
    torch.ops.load_library(path)


def _read_configuration() -> dict[str, Any]:
    torch = importlib.import_module("torch")
    flags = getattr(torch._C, "_cuda_getArchFlags", None)
    # torch.cuda.get_arch_list() is empty on a machine without a GPU.
    text = (flags() if flags else None) or " ".join(torch.cuda.get_arch_list())
    return {"configuration": torch.__config__.show(), "architectures": text.split()}


def _multiply(device: str) -> dict[str, Any]:
    """Multiply matrices of small whole numbers, whose product no rounding changes, and larger ones for the time."""
    torch = importlib.import_module("torch")
    places = range(_SIZE)
    left = [[float((7 * row + 3 * column) % 5) for column in places] for row in places]
    right = [[float((5 * row + column) % 4) for column in places] for row in places]
    expected = [
        [sum(left[row][each] * right[each][column] for each in places) for column in places] for row in places
    ]
    product = torch.matmul(torch.tensor(left, device=device), torch.tensor(right, device=device))
    if product.to("cpu").tolist() != expected:
        raise ArithmeticError(f"the product of two {_SIZE} x {_SIZE} matrices is wrong")
    large = torch.ones(_LARGE, _LARGE, device=device)
    # Not timed, because the first product also loads libraries.
    torch.matmul(large, large).to("cpu")
    began = time.perf_counter()
    # Copying waits for the GPU.
    torch.matmul(large, large).to("cpu")
    return {"size": _LARGE, "seconds": time.perf_counter() - began}


def _calculate_on_gpus(capabilities: list[str]) -> dict[str, Any]:
    torch = importlib.import_module("torch")
    if not capabilities or not torch.cuda.is_available():
        return {"available": torch.cuda.is_available(), "gpus": []}
    found = []
    for index in range(torch.cuda.device_count()):
        at = (index,) if index else ()
        major, minor = torch.cuda.get_device_capability(*at)
        if f"{major}.{minor}" in capabilities:
            device = f"cuda:{index}" if index else "cuda"
            found.append({"name": torch.cuda.get_device_name(*at), **_multiply(device)})
    return {"available": True, "gpus": found}


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
