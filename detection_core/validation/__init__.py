"""What is looked for in a data set before a detector is trained on it."""
