"""Everything that talks to a Kubeflow Pipelines server, and schedules.

`kfp` is imported when a connection is made, not before: a command that needs no server does not pay for it.
"""
