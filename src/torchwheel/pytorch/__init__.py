"""PyTorch releases: build system, CUDA range, published wheels and options."""
