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
    from detection_core.ops.tile_options import TileOptions
    from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig
    from detection_core.tasks.exporting.parity import TFLiteExportOptions

_MODULES = {
    name: module
    for module, names in {
        "api": "load_config build_detector train evaluate quantize export predict"
        " TrainedDetector QuantizedDetector ExportedFiles",
        "protos.pipeline_pb2": "TrainEvalPipelineConfig",
        "detectors.base": "Detector",
        "builders.evaluation_settings": "EvaluateOptions",
        "ops.tile_options": "TileOptions",
        "tasks.exporting.parity": "TFLiteExportOptions",
        "artifacts.model_run": "TrainReport QuantizationReport",
        "artifacts.evaluation": "EvalReport",
        "artifacts.parity": "ParityReport",
        "artifacts.prediction": "Prediction DetectedObject",
        "errors": "DetectionError ConfigError DataError ModelError ExportError ContractError StorageError",
    }.items()
    for name in names.split()
}
"""Public name to the module of this package that has it."""

__all__ = [  # noqa: RUF022 -- in the order of the reference
    "load_config", "build_detector", "train", "evaluate", "quantize", "export", "predict", "TrainedDetector",
    "QuantizedDetector", "ExportedFiles", "TrainEvalPipelineConfig", "Detector", "EvaluateOptions",
    "TileOptions", "TFLiteExportOptions", "TrainReport", "EvalReport", "QuantizationReport", "ParityReport",
    "Prediction", "DetectedObject", "DetectionError", "ConfigError", "DataError", "ModelError", "ExportError",
    "ContractError", "StorageError",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
