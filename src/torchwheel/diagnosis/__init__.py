"""Diagnose the log of a failed build: its first cause, the meaning and the fix.

``scanner.diagnose`` reads a stream, ``diagnosis_page`` shows the result. The catalogue is data: ``catalogue/*.toml``.
"""
