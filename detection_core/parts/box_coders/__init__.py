"""Encoders of boxes relative to anchors."""
