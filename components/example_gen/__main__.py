"""Container entry point."""

from component_specs import ExampleGenJob
from components.example_gen.run import run
from components.runtime.container import main

if __name__ == "__main__":
    main(ExampleGenJob, run)
