"""CUDA toolkits: what every release can compile, and which ones are on this machine."""
