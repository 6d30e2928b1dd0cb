"""C++ and CUDA extensions of PyTorch, built for named hardware: one core, three doors.

The doors: setup.py (``setuptools_ext``), tables in pyproject.toml (``backend``), CMake (``cmake``). All make an
:class:`torchwheel.extension.model.ExtensionPlan`, and all run the same compiler commands.
"""
