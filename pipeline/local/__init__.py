"""Runs on this machine: the TFX backend, the workspace, run.json."""
