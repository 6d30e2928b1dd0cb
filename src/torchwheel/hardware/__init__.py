"""GPUs and CUDA architectures: their names, what compiled code runs on which, and what is in this machine."""
