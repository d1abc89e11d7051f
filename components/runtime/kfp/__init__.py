"""Run a step on Kubeflow Pipelines: read its call, write its result."""
