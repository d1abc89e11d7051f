"""The command line `detflow`."""

from pipeline.cli.parser import main

__all__ = ["main"]
