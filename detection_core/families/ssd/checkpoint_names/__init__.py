"""Names that object-based checkpoints of the field give to the variables of our networks."""
