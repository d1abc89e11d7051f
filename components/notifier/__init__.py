"""Notifications of what became of a run."""
