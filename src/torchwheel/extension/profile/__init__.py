"""What compiling a project's extensions costs, which headers cost it, and what would save it: all of it measured."""
