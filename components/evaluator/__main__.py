"""The container's entry point."""

from component_specs import EvaluatorJob
from components.evaluator.run import run
from components.runtime.container import main

if __name__ == "__main__":
    main(EvaluatorJob, run)
