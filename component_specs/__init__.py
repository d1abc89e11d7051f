"""Contracts of the workflow steps: one frozen Job dataclass each, and its renderers."""

from component_specs.baseline_resolver import BaselineResolverJob
from component_specs.config_gen import ConfigGenJob
from component_specs.data_validator import DataValidatorJob
from component_specs.evaluator import EvaluatorJob
from component_specs.example_gen import ExampleGenJob
from component_specs.pusher import PusherJob
from component_specs.quantization_rewriter import QuantizationRewriterJob
from component_specs.run_checker import RunCheckerJob
from component_specs.tflite_exporter import TFLiteExporterJob
from component_specs.trainer import TrainerJob

__all__ = [
    "JOBS", "BaselineResolverJob", "ConfigGenJob", "DataValidatorJob", "EvaluatorJob", "ExampleGenJob",
    "PusherJob", "QuantizationRewriterJob", "RunCheckerJob", "TFLiteExporterJob", "TrainerJob",
]  # fmt: skip

# Component name, also the name of its folder in `components/`, to its contract.
JOBS: dict[str, type] = {
    "run_checker": RunCheckerJob,
    "config_gen": ConfigGenJob,
    "example_gen": ExampleGenJob,
    "baseline_resolver": BaselineResolverJob,
    "data_validator": DataValidatorJob,
    "trainer": TrainerJob,
    "evaluator": EvaluatorJob,
    "quantization_rewriter": QuantizationRewriterJob,
    "tflite_exporter": TFLiteExporterJob,
    "pusher": PusherJob,
}
