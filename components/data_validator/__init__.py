"""Statistics of examples, what is wrong with them, and a verdict."""
