"""The container's entry point."""

from component_specs import QuantizationRewriterJob
from components.quantization_rewriter.run import run
from components.runtime.container import main

if __name__ == "__main__":
    main(QuantizationRewriterJob, run)
