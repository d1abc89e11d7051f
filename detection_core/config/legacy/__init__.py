"""Configs of TensorFlow 1's time."""
