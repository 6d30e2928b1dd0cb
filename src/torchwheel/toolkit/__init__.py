"""CUDA toolkits: the features of every release, and the toolkits of this machine."""
