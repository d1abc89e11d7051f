"""What is wrong, strange or different about a data set, before a detector is trained on it."""
