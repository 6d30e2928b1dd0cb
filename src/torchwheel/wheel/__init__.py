"""Wheels: what is inside them, whether it is what was planned, and how one is changed and handed over."""
