"""Names used at the output of TensorFlow Lite detectors."""

CLIP_RANGE = "box_encodings_clip_range"
"""A field of the prediction head; a TensorFlow Lite file does not clip codes."""
OPERATION = "TFLite_Detection_PostProcess"
"""The custom operator that decodes boxes and applies non-maximum suppression."""
