"""A step as Kubeflow Pipelines calls it, and what it tells Kubeflow."""
