"""Families of detectors, and the parts that they share."""
