"""A pipeline.config and examples to a trained detector."""
