"""GPUs and CUDA architectures: names, compatibility of compiled code, and the GPUs of this machine."""
