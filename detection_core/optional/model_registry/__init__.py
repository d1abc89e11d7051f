"""Registering published versions in MLflow's model registry."""

from detection_core.optional.model_registry.mlflow_registry import register_version

__all__ = ["register_version"]
