"""Loggers that receive a training's numbers and pictures, beside its own files."""
