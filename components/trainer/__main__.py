"""The container's entry point."""

from component_specs import TrainerJob
from components.runtime.container import main
from detection_core.training.kernels import use_onednn

if __name__ == "__main__":
    use_onednn()
    # It imports TensorFlow.
    from components.trainer.run import run

    main(TrainerJob, run)
