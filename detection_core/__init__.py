"""Object detection from a pipeline.config: build, train, evaluate, quantize and export."""
