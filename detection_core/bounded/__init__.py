"""Limits of files that users and their tools write, and parsers of JSON and YAML within them."""
