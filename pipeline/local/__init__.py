"""Runs on this machine: the TFX backend, the workspace, the record of a run."""
