"""Quantization-aware training of a trained detector."""
