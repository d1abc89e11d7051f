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

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from detection_core.api import (
        ExportedFiles as ExportedFiles,
    )
    from detection_core.api import (
        QuantizedDetector as QuantizedDetector,
    )
    from detection_core.api import (
        TrainedDetector as TrainedDetector,
    )
    from detection_core.api import (
        build_detector as build_detector,
    )
    from detection_core.api import (
        evaluate as evaluate,
    )
    from detection_core.api import (
        export as export,
    )
    from detection_core.api import (
        load_config as load_config,
    )
    from detection_core.api import (
        predict as predict,
    )
    from detection_core.api import (
        quantize as quantize,
    )
    from detection_core.api import (
        train as train,
    )
    from detection_core.artifacts.evaluation import EvalReport as EvalReport
    from detection_core.artifacts.model_run import QuantizationReport as QuantizationReport
    from detection_core.artifacts.model_run import TrainReport as TrainReport
    from detection_core.artifacts.parity import ParityReport as ParityReport
    from detection_core.artifacts.prediction import DetectedObject as DetectedObject
    from detection_core.artifacts.prediction import Prediction as Prediction
    from detection_core.detectors.base import Detector as Detector
    from detection_core.errors import (
        ConfigError as ConfigError,
    )
    from detection_core.errors import (
        ContractError as ContractError,
    )
    from detection_core.errors import (
        DataError as DataError,
    )
    from detection_core.errors import (
        DetectionError as DetectionError,
    )
    from detection_core.errors import (
        ExportError as ExportError,
    )
    from detection_core.errors import (
        ModelError as ModelError,
    )
    from detection_core.errors import (
        StorageError as StorageError,
    )
    from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig as TrainEvalPipelineConfig
    from detection_core.tasks.evaluate import EvaluateOptions as EvaluateOptions
    from detection_core.tasks.export import TFLiteExportOptions as TFLiteExportOptions

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
    "EvaluateOptions": "tasks.evaluate",
    "TFLiteExportOptions": "tasks.export",
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
"""Public name, in the order of the reference, to the module of this package that has it."""

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
