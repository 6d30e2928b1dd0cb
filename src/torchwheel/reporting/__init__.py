"""What reaches the user: problems, their texts, masking of secrets, and the terminal."""
