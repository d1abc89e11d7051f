"""Finds errors, outliers and drift in a data set before training."""
