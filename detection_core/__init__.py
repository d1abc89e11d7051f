"""Object detection from a pipeline.config: build, train, evaluate, quantize, export and predict.

    from detection_core import TFLiteExportOptions, evaluate, export, load_config, predict, quantize, train

    config = load_config("pipeline.config", {"train_config.num_steps": 2000})
    trained = train(config, examples="build/examples", output="build/trained")
    print(evaluate(trained, examples="build/examples").metrics["DetectionBoxes_Precision/mAP"])
    quantized = quantize(trained, output="build/quantized")
    options = TFLiteExportOptions(max_map_drop=0.02)
    exported = export(trained, quantized=quantized, options=options, output="build/exported")
    for prediction in predict(exported.files["int8"], ["photo.jpg"], output="build/predicted"):
        print(prediction.picture, prediction.detections)

Only the names in this module are public; docs/architecture.md states how long they stay. Imports are lazy.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from detection_core.api import (
        ExportedFiles,
        QuantizedDetector,
        TrainedDetector,
        build_detector,
        evaluate,
        export,
        load_config,
        predict,
        quantize,
        train,
    )
    from detection_core.artifacts.evaluation import EvalReport
    from detection_core.artifacts.model_run import QuantizationReport, TrainReport
    from detection_core.artifacts.parity import ParityReport
    from detection_core.artifacts.prediction import DetectedObject, Prediction
    from detection_core.builders.evaluation_settings import EvaluateOptions
    from detection_core.detectors.base import Detector
    from detection_core.errors import (
        ConfigError,
        ContractError,
        DataError,
        DetectionError,
        ExportError,
        ModelError,
        StorageError,
    )
    from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
    from detection_core.tasks.exporting.parity import TFLiteExportOptions

_MODULES = {
    "load_config": "api",
    "build_detector": "api",
    "train": "api",
    "evaluate": "api",
    "quantize": "api",
    "export": "api",
    "predict": "api",
    "TrainedDetector": "api",
    "QuantizedDetector": "api",
    "ExportedFiles": "api",
    "TrainEvalPipelineConfig": "protos.pipeline_pb2",
    "Detector": "detectors.base",
    "EvaluateOptions": "builders.evaluation_settings",
    "TFLiteExportOptions": "tasks.exporting.parity",
    "TrainReport": "artifacts.model_run",
    "EvalReport": "artifacts.evaluation",
    "QuantizationReport": "artifacts.model_run",
    "ParityReport": "artifacts.parity",
    "Prediction": "artifacts.prediction",
    "DetectedObject": "artifacts.prediction",
    "DetectionError": "errors",
    "ConfigError": "errors",
    "DataError": "errors",
    "ModelError": "errors",
    "ExportError": "errors",
    "ContractError": "errors",
    "StorageError": "errors",
}
"""Public name to the module of this package that has it."""

__all__ = [  # noqa: RUF022 -- in the order of the reference
    "load_config",
    "build_detector",
    "train",
    "evaluate",
    "quantize",
    "export",
    "predict",
    "TrainedDetector",
    "QuantizedDetector",
    "ExportedFiles",
    "TrainEvalPipelineConfig",
    "Detector",
    "EvaluateOptions",
    "TFLiteExportOptions",
    "TrainReport",
    "EvalReport",
    "QuantizationReport",
    "ParityReport",
    "Prediction",
    "DetectedObject",
    "DetectionError",
    "ConfigError",
    "DataError",
    "ModelError",
    "ExportError",
    "ContractError",
    "StorageError",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
