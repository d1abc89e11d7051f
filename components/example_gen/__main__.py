"""Container entry point."""

from component_specs import ExampleGenJob
from components._runtime.container import main
from components.example_gen.run import run

if __name__ == "__main__":
    main(ExampleGenJob, run)
