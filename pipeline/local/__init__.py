"""Local runs: the TFX backend, the workspace, run.json."""
