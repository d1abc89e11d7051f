"""Statistics, findings and a verdict on examples."""
