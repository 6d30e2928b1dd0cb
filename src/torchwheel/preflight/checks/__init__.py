"""One function for each rule."""
