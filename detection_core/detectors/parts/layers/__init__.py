"""Layers, their hyperparameters and penalties."""
