"""Detector families, one folder each; `detectors/family.py` finds them by name."""
