"""Annotated data sets as people have them: read, checked and turned into examples."""
