"""PyTorch as it is installed, read from its files."""
