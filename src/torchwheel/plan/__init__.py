"""The plan: every decision about a build, made before it starts."""
