"""The container's entry point."""

from component_specs import QuantizationRewriterJob
from components.runtime.container import main
from detection_core.training.kernels import use_onednn

if __name__ == "__main__":
    use_onednn()
    # It imports TensorFlow.
    from components.quantization_rewriter.run import run

    main(QuantizationRewriterJob, run)
