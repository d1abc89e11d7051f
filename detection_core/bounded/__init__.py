"""Text that people and their tools write, read whole and within the bounds of what a file may ask for."""
