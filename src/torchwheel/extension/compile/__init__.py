"""The commands that compile and link extensions, and running them."""
