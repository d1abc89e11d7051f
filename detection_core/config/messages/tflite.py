"""Names of what TensorFlow Lite detectors end with."""

CLIP_RANGE = "box_encodings_clip_range"
"""A head's field; a TensorFlow Lite file does not clip codes."""
OPERATION = "TFLite_Detection_PostProcess"
"""The custom operation that decodes and suppresses boxes."""
