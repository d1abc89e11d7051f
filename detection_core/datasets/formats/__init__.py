"""The annotation formats, a module each."""
