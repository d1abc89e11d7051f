"""Logging to Weights & Biases."""

from detection_core.optional.wandb.wandb_run import open_run

__all__ = ["open_run"]
