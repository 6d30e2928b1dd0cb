"""The CMake package TorchWheel; scikit-build-core finds it by the entry point ``cmake.root``."""
