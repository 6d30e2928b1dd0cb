"""Checks before a build: rules as data, applied to a machine as data."""
