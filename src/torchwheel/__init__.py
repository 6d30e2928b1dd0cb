"""torchwheel: build PyTorch, and kernels for it, for the hardware that is at hand."""

__version__ = "0.1.0"
