"""What each PyTorch release is and needs: its build system, CUDA range, published wheels and options."""
