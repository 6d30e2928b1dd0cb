"""C++ and CUDA extensions of PyTorch, built for named hardware: three interfaces, one plan.

A setup.py (``setuptools_ext``), tables in pyproject.toml (``backend``) and CMake (``cmake``) all make an
:class:`torchwheel.extension.extension_plan.ExtensionPlan`, and all run the same compiler commands.
"""
