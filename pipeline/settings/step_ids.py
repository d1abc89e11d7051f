"""Ids of a workflow's steps; which of them a workflow has depends on its settings."""

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
    RUN_CHECKER,
    CONFIG_GEN,
    EXAMPLE_GEN,
    BASELINE_RESOLVER,
    DATA_VALIDATOR,
    TRAINER,
    EVALUATOR,
    QUANTIZATION_REWRITER,
    QUANTIZED_EVALUATOR,
    TFLITE_EXPORTER,
    PUSHER,
)
