"""The configuration of a run as an artifact."""
