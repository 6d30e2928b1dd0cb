"""Read a source tree: version, generation, declared options, commit and submodules."""
