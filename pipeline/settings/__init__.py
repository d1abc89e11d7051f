"""Settings of a workflow: read from a file and the command line, checked and typed."""
