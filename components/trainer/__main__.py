"""The container's entry point."""

from component_specs import TrainerJob
from components.runtime.container import main
from components.trainer.run import run

if __name__ == "__main__":
    main(TrainerJob, run)
