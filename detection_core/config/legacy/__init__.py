"""Configs written for TensorFlow 1."""
