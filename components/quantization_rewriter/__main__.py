"""The container's entry point."""

from component_specs import QuantizationRewriterJob
from components._runtime.container import main
from components.quantization_rewriter.run import run

if __name__ == "__main__":
    main(QuantizationRewriterJob, run)
