"""Composition: settings, the DAG, its backends and the command line."""
