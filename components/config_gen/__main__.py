"""The container's entry point."""

from component_specs import ConfigGenJob
from components._runtime.container import main
from components.config_gen.run import run

if __name__ == "__main__":
    main(ConfigGenJob, run)
