"""The container's entry point."""

from component_specs import BaselineResolverJob
from components.baseline_resolver.run import run
from components.runtime.container import main

if __name__ == "__main__":
    main(BaselineResolverJob, run)
