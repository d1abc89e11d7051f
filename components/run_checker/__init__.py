"""What a run finds out before it begins."""
