"""The container's entry point."""

from component_specs import EvaluatorJob
from components._runtime.container import main
from components.evaluator.run import run

if __name__ == "__main__":
    main(EvaluatorJob, run)
