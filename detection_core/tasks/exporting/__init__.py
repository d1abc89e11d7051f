"""The parts of an export: the networks that are converted, and how files compare with the detector."""
