"""The workflow steps: each binds a Job, calls the core and writes artifacts."""
