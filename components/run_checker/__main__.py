"""The container's entry point."""

from component_specs import RunCheckerJob
from components._runtime.container import main
from components.run_checker.run import run

if __name__ == "__main__":
    main(RunCheckerJob, run)
