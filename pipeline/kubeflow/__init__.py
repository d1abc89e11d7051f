"""Compile workflows for Kubeflow Pipelines, and talk to its server.

`kfp` is imported late, so that commands without a server start quickly.
"""
