"""The container's entry point."""

from component_specs import ConfigGenJob
from components.config_gen.run import run
from components.runtime.container import main

if __name__ == "__main__":
    main(ConfigGenJob, run)
