"""Resolves the inputs of a run before it begins."""
