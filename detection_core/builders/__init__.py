"""Builders of parts from configuration messages."""
