__version__ = "2.14.1"
cuda: str = "13.0"
debug = False
