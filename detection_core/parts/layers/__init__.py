"""Layers, their hyperparameters and regularizers."""
