"""Whether a finished wheel, or an installed torch, is what it says, and whether it works here."""
