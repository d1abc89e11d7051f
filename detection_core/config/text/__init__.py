"""The text of a pipeline.config: parsed with positions, edited in place."""
