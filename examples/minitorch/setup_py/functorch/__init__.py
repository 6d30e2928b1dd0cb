"""Where PyTorch's function transforms are; here it is how they are packed that counts."""

from functorch._C import is_loaded as is_loaded
