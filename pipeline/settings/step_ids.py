"""Ids of a workflow's possible steps; its settings decide which it has."""

RUN_CHECKER = "run_checker"
CONFIG_GEN = "config_gen"
EXAMPLE_GEN = "example_gen"
BASELINE_RESOLVER = "baseline_resolver"
DATA_VALIDATOR = "data_validator"
TRAINER = "trainer"
EVALUATOR = "evaluator"
QUANTIZATION_REWRITER = "quantization_rewriter"
QUANTIZED_EVALUATOR = "quantized_evaluator"
TFLITE_EXPORTER = "tflite_exporter"
PUSHER = "pusher"

STEPS = (
    RUN_CHECKER, CONFIG_GEN, EXAMPLE_GEN, BASELINE_RESOLVER, DATA_VALIDATOR, TRAINER, EVALUATOR,
    QUANTIZATION_REWRITER, QUANTIZED_EVALUATOR, TFLITE_EXPORTER, PUSHER,
)  # fmt: skip
"""Ids of the steps in `pipeline/dag.py`."""

_registered: list[str] = []


def step_ids() -> tuple[str, ...]:
    """Return the ids of all possible steps, with registered steps last."""
    return (*STEPS, *_registered)


def add_step_id(step_id: str) -> None:
    """Add the id of a registered step, so that settings may use it; ValueError when it is taken."""
    if step_id in step_ids():
        raise ValueError(f"expected a new id for a step, found {step_id!r}, which is taken; rename it")
    _registered.append(step_id)
