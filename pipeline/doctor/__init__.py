"""Checks of `detflow doctor`: this machine, and a cluster.

Tables list the checks, one function each. A check returns findings; each fault has a remedy.
"""
