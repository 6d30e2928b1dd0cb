"""The first screen: what to type first."""

from __future__ import annotations

WELCOME = """\
torchwheel builds PyTorch and its CUDA kernels for your own hardware.

Three commands to start with:

  torchwheel gpus 5070                        the name of your GPU as a target
  torchwheel plan PATH --target rtx5070       what a build would do; it takes
                                              no GPU, no CUDA and no time
  torchwheel build PATH --target rtx5070      the wheel, in dist/

PATH is a PyTorch source tree. Without a GPU, the target is cpu.

  torchwheel --help                           all commands
  torchwheel COMMAND --help                   one of them
"""
