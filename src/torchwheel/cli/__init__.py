"""The command line: one file a command, each with ``populate`` and ``run``."""
