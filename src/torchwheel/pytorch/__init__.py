"""What each PyTorch release is and needs: its build system, its CUDA range, its published wheels, its options."""
