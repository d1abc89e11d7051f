"""Publication of blessed versions."""
