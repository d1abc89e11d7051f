"""Fetch the deployed model; nothing on the first run."""
