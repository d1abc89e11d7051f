"""Reads annotated data sets, checks them and turns them into examples."""
