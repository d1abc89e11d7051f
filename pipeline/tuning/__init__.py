"""Hyper-parameter search by validation score: `detflow tune`."""
