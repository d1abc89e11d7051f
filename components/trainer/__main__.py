"""The container's entry point."""

import os

from component_specs import TrainerJob
from component_specs.trainer import NODES, TrainingNodes
from components.runtime.container import log_to_stderr, main
from detection_core.training.kernels import use_onednn

if __name__ == "__main__":
    if NODES in os.environ:
        from components.trainer.nodes.launch import train_on_nodes

        main(TrainerJob, lambda job: train_on_nodes(job, TrainingNodes.from_text(os.environ[NODES])))
    use_onednn()
    # It imports TensorFlow, which writes its lines a second time unless there is a log.
    log_to_stderr()
    from components.trainer.nodes.worker import set_tf_config, train_in_pod

    set_tf_config()
    main(TrainerJob, train_in_pod)
