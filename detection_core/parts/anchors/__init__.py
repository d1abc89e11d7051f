"""Anchor generators."""
