"""Wheels: what is inside them, whether it is what was planned, and how to add a file to one.

fatbinary    NVIDIA's fat binaries, entry by entry
sections     sections of shared libraries (ELF, PE)
binary       the device code in one library
archive      a wheel as an untrusted zip archive
record       RECORD
torchversion torch/version.py
contents     everything that is known about one wheel
verify       a wheel against its plan
device_code  its machine code against the planned architectures
extras       machine code that PyTorch's build adds by itself
manifest     the build manifest inside the wheel
rewrite      adding files without recompressing the others
rawzip       members of a zip archive, copied as they are
atomic       files that appear only when complete
timestamps   SOURCE_DATE_EPOCH
constraints  the exact pin
"""
