"""The annotation formats, one module each."""
