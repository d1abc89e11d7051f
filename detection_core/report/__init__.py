"""Formats, charts, summaries and templates of the run report and of Kubeflow's pages."""
