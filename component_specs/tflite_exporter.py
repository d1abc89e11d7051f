"""Contract of TFLiteExporter."""

import dataclasses
from collections.abc import Mapping
from typing import Annotated

from component_specs.annotations import BLESSING, EVALUATION, EXAMPLES, MODEL, TFLITE_MODEL, Input, Output
from component_specs.codecs import CommaSeparated, JsonObject
from component_specs.example_gen import TILES, Tiles

LIMITS = JsonObject(example='{"int8": {"size_mb": 4, "latency_ms": 20}}', of_objects=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TFLiteExporterJob:
    """Convert a detector to TensorFlow Lite, and refuse files that lost accuracy."""

    examples: Annotated[str, Input(EXAMPLES)]
    model: Annotated[str, Input(MODEL)]
    tflite: Annotated[str, Output(TFLITE_MODEL)]
    parity: Annotated[str, Output(EVALUATION)]
    blessing: Annotated[str, Output(BLESSING)]
    quantized_model: Annotated[str, Input(MODEL, optional=True)] = ""
    formats: Annotated[tuple[str, ...], CommaSeparated()] = ("float32", "int8")
    split: str = "eval"
    tiles: Annotated[Tiles, TILES] = dataclasses.field(default_factory=dict)
    max_map_drop: float = 0.02
    limits: Annotated[Mapping[str, Mapping[str, float]], LIMITS] = dataclasses.field(default_factory=dict)
    max_detections: int = 100
    use_regular_nms: bool = False
    form: str = "post_process"
    headless: bool = True
    representative_examples: int = 100
    code_version: str = ""
