"""What `detflow doctor` looks at: this machine, and a cluster.

Checks stand in tables, one function a check; each gives findings, and whatever is not right says what to do.
"""
