"""Read the installed PyTorch from its files."""
