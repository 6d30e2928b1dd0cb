"""Wheels: what is inside them, whether it is what was planned, and how to add a file to one.

fatbinary    NVIDIA's fat binaries, entry by entry
bounded_file a file whose announced positions are checked
elf, pe      section tables of shared libraries
sections     sections of shared libraries, by name
linkage      what a shared library takes from others (read_linkage, elf_linkage, pe_linkage)
platform_level  its C and C++ libraries, against a platform tag
binary       the device code in one library
archive      a wheel as an untrusted zip archive
record       RECORD
torchversion torch/version.py
contents     everything that is known about one wheel
verify       a wheel against its plan
device_code  its machine code against the planned architectures
extras       machine code that PyTorch's build adds by itself
manifest     the build manifest inside the wheel
rewrite      adding files and renaming folders without recompressing the others
relabel      another version, tag or requirements for a finished wheel
metadata_text, requirements  single fields of METADATA, and what a wheel requires
unpacked     a member as a file
rawzip       members of a zip archive, copied as they are
atomic       files that appear only when complete
timestamps   SOURCE_DATE_EPOCH
constraints  the exact pin
"""
