"""Training targets of the detectors."""
