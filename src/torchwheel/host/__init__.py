"""The machine that builds: system, processor, usable memory, compilers, Python."""
