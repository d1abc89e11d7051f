"""The search for the configuration that validates best: `detflow tune`."""
