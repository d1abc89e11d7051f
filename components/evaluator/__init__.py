"""Metrics, pictures and a blessing of a detector."""
