"""Bounded reading of whole text files that users and their tools write."""
