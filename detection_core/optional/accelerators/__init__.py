"""Finds the operations of a TensorFlow Lite file that an accelerator runs."""

from detection_core.optional.accelerators.accelerator_lint import Lint, families, lint

__all__ = ["Lint", "families", "lint"]
