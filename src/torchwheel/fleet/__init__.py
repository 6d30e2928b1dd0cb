"""Jobs of continuous integration that build for a fleet: targets, Pythons and platforms."""
