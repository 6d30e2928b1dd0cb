"""PyTorch's stable ABI: which releases there are of it, and whether a finished module keeps to it."""
