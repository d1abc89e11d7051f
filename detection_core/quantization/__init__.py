"""Quantization-aware and post-training quantization."""
