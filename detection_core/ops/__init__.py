"""Pure functions on boxes, overlaps and detections."""
