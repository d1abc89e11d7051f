"""Logging to MLflow."""

from detection_core.optional.mlflow.mlflow_run import open_run

__all__ = ["open_run"]
