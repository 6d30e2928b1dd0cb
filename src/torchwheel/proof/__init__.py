"""The proof of a wheel by its content alone: builds, `torchwheel verify` and `torchwheel index` share it."""
