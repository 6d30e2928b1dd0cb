"""The progress of a build: its record, estimate, display and report."""
