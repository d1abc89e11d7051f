"""Reading, overriding and checking a pipeline.config."""
