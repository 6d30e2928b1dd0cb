"""The plan: everything a build is going to do, decided before it starts."""
