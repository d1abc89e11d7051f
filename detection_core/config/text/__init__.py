"""The text of a pipeline.config: parse with positions, edit in place."""
