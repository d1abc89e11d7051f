"""The container's entry point."""

from component_specs import RunCheckerJob
from components.run_checker.run import run
from components.runtime.container import main

if __name__ == "__main__":
    main(RunCheckerJob, run)
