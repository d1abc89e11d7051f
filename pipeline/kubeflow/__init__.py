"""Compile workflows for Kubeflow Pipelines, and access its server.

`kfp` is imported late, so that commands without a server start quickly.
"""
