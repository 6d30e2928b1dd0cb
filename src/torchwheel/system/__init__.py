"""Files, locks, TOML and processes, the same on every system."""
