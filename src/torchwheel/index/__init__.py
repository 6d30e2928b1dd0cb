"""Sites of wheels that `torchwheel index` writes: what is in one, and how it is read from a folder or a server."""
