"""Binding of components to backends."""
