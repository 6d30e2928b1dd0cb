"""PyTorch's stable ABI: what asks for it, and whether a finished module keeps to it."""
