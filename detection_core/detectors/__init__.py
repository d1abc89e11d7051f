"""Detector families, and the contract that they share."""
