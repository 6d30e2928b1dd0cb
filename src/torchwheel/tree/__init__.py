"""What source tree is this: version, generation, the options it really has, its commit, its submodules."""
