"""CI jobs that build for a fleet of targets, Pythons and platforms, and sites of their wheels."""
