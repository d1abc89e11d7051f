"""The container's entry point."""

from component_specs import BaselineResolverJob
from components._runtime.container import main
from components.baseline_resolver.run import run

if __name__ == "__main__":
    main(BaselineResolverJob, run)
