"""torchwheel's own version, for the modules that ``torchwheel`` itself imports from."""

__version__ = "0.1.0"
