"""The HTML report of a run."""

from pipeline.report.writer import write_report

__all__ = ["write_report"]
