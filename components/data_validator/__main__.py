"""The container's entry point."""

from component_specs import DataValidatorJob
from components.data_validator.run import run
from components.runtime.container import main

if __name__ == "__main__":
    main(DataValidatorJob, run)
