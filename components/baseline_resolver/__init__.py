"""The deployed model, or nothing on the first run."""
