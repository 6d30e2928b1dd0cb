from setuptools import setup

from torchwheel import BuildExtension, CUDAExtension

setup(
    ext_modules=[
        CUDAExtension(
            "texture_kernels._C",
            ["csrc/module.cpp", "csrc/operators.cpp", "csrc/cpu/rgb_to_lab.cpp", "csrc/cpu/sobel.cpp"],
            # Left out where the installed PyTorch is one without CUDA.
            cuda_sources=["csrc/cuda/operators.cpp", "csrc/cuda/rgb_to_lab.cu", "csrc/cuda/sobel.cu"],
            py_limited_api=True,
        )
    ],
    cmdclass={"build_ext": BuildExtension},
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
)
