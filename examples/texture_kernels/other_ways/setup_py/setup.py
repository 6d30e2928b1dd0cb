from setuptools import setup

from torchwheel import BuildExtension, CppExtension, CUDAExtension
from torchwheel.extension.installed_torch import installed_torch

sources = ["csrc/module.cpp", "csrc/operators.cpp", "csrc/cpu/rgb_to_lab.cpp", "csrc/cpu/sobel.cpp"]
extension = CppExtension
if installed_torch().cuda is not None:
    sources += ["csrc/cuda/operators.cpp", "csrc/cuda/rgb_to_lab.cu", "csrc/cuda/sobel.cu"]
    extension = CUDAExtension

setup(
    ext_modules=[extension("texture_kernels._C", sources, py_limited_api=True)],
    cmdclass={"build_ext": BuildExtension},
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
)
