"""What detectors are made of."""
