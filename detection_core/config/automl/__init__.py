"""The configuration of google/automl's EfficientDet, read without TensorFlow."""
