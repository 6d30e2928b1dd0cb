"""What a finished wheel of extensions is called, must hold, and says of itself."""
