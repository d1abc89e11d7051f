"""The container's entry point."""

import functools
import os

from component_specs import TrainerJob
from component_specs.trainer import NODES, TrainingNodes
from components.runtime.container import main
from detection_core.training.kernels import use_onednn

if __name__ == "__main__":
    if NODES in os.environ:
        from components.trainer.nodes.launch import train_on_nodes

        nodes = TrainingNodes.from_text(os.environ[NODES])
        main(TrainerJob, functools.partial(train_on_nodes, nodes=nodes))
    use_onednn()
    # They import TensorFlow.
    from components.trainer.nodes.worker import progress_reporter, set_tf_config
    from components.trainer.run import run

    set_tf_config()
    main(TrainerJob, functools.partial(run, progress=progress_reporter()))
